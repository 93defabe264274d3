;; The product x W^T in float32 with SIMD: rows of x [rows, k] times rows of W [m, k] -> out [rows, m].
;; k is a multiple of 4 and m of 2. All numbers are in one memory; x, w and out are addresses in bytes.
;;
;; kernel.js contains the assembled bytes. To assemble: wat2wasm kernel.wat --output=- | base64 -w 0
(module
  (import "engine" "memory" (memory 1))

  ;; The sum of the four numbers of a vector.
  (func $sum (param $v v128) (result f32)
    (f32.add
      (f32.add (f32x4.extract_lane 0 (local.get $v)) (f32x4.extract_lane 1 (local.get $v)))
      (f32.add (f32x4.extract_lane 2 (local.get $v)) (f32x4.extract_lane 3 (local.get $v)))))

  ;; One row of x times two rows of W at a time.
  (func (export "row1") (param $x i32) (param $w i32) (param $out i32) (param $k i32) (param $m i32)
    (local $width i32) (local $end i32) (local $a i32) (local $last i32) (local $x0 v128) (local $s0 v128) (local $s1 v128)
    (local.set $width (i32.shl (local.get $k) (i32.const 2)))
    (local.set $end (i32.add (local.get $out) (i32.shl (local.get $m) (i32.const 2))))
    (local.set $last (i32.add (local.get $x) (local.get $width)))
    (loop $outputs
      (local.set $a (local.get $x))
      (local.set $s0 (v128.const f32x4 0 0 0 0))
      (local.set $s1 (v128.const f32x4 0 0 0 0))
      (loop $terms
        (local.set $x0 (v128.load (local.get $a)))
        (local.set $s0 (f32x4.add (local.get $s0) (f32x4.mul (local.get $x0) (v128.load (local.get $w)))))
        (local.set $s1 (f32x4.add (local.get $s1) (f32x4.mul (local.get $x0)
          (v128.load (i32.add (local.get $w) (local.get $width))))))
        (local.set $w (i32.add (local.get $w) (i32.const 16)))
        (br_if $terms (i32.lt_u (local.tee $a (i32.add (local.get $a) (i32.const 16))) (local.get $last))))
      (f32.store offset=0 (local.get $out) (call $sum (local.get $s0)))
      (f32.store offset=4 (local.get $out) (call $sum (local.get $s1)))
      (local.set $w (i32.add (local.get $w) (local.get $width)))
      (br_if $outputs (i32.lt_u (local.tee $out (i32.add (local.get $out) (i32.const 8))) (local.get $end)))))

  ;; Four rows of x times two rows of W at a time, so that each vector that is loaded serves several products.
  (func (export "row4") (param $x i32) (param $w i32) (param $out i32) (param $k i32) (param $m i32)
    (local $width i32) (local $next i32) (local $end i32) (local $a i32) (local $last i32)
    (local $w0 v128) (local $w1 v128) (local $v v128)
    (local $s00 v128) (local $s01 v128) (local $s10 v128) (local $s11 v128)
    (local $s20 v128) (local $s21 v128) (local $s30 v128) (local $s31 v128)
    (local.set $width (i32.shl (local.get $k) (i32.const 2))) ;; bytes from one row of x or W to the next
    (local.set $next (i32.shl (local.get $m) (i32.const 2))) ;; bytes from one row of out to the next
    (local.set $end (i32.add (local.get $out) (local.get $next)))
    (local.set $last (i32.add (local.get $x) (local.get $width)))
    (loop $outputs
      (local.set $a (local.get $x))
      (local.set $s00 (v128.const f32x4 0 0 0 0)) (local.set $s01 (v128.const f32x4 0 0 0 0))
      (local.set $s10 (v128.const f32x4 0 0 0 0)) (local.set $s11 (v128.const f32x4 0 0 0 0))
      (local.set $s20 (v128.const f32x4 0 0 0 0)) (local.set $s21 (v128.const f32x4 0 0 0 0))
      (local.set $s30 (v128.const f32x4 0 0 0 0)) (local.set $s31 (v128.const f32x4 0 0 0 0))
      (loop $terms
        (local.set $w0 (v128.load (local.get $w)))
        (local.set $w1 (v128.load (i32.add (local.get $w) (local.get $width))))
        (local.set $v (v128.load (local.get $a)))
        (local.set $s00 (f32x4.add (local.get $s00) (f32x4.mul (local.get $v) (local.get $w0))))
        (local.set $s01 (f32x4.add (local.get $s01) (f32x4.mul (local.get $v) (local.get $w1))))
        (local.set $v (v128.load (i32.add (local.get $a) (local.get $width))))
        (local.set $s10 (f32x4.add (local.get $s10) (f32x4.mul (local.get $v) (local.get $w0))))
        (local.set $s11 (f32x4.add (local.get $s11) (f32x4.mul (local.get $v) (local.get $w1))))
        (local.set $v (v128.load (i32.add (local.get $a) (i32.shl (local.get $width) (i32.const 1)))))
        (local.set $s20 (f32x4.add (local.get $s20) (f32x4.mul (local.get $v) (local.get $w0))))
        (local.set $s21 (f32x4.add (local.get $s21) (f32x4.mul (local.get $v) (local.get $w1))))
        (local.set $v (v128.load (i32.add (local.get $a) (i32.mul (local.get $width) (i32.const 3)))))
        (local.set $s30 (f32x4.add (local.get $s30) (f32x4.mul (local.get $v) (local.get $w0))))
        (local.set $s31 (f32x4.add (local.get $s31) (f32x4.mul (local.get $v) (local.get $w1))))
        (local.set $w (i32.add (local.get $w) (i32.const 16)))
        (br_if $terms (i32.lt_u (local.tee $a (i32.add (local.get $a) (i32.const 16))) (local.get $last))))
      (f32.store offset=0 (local.get $out) (call $sum (local.get $s00)))
      (f32.store offset=4 (local.get $out) (call $sum (local.get $s01)))
      (local.set $a (i32.add (local.get $out) (local.get $next)))
      (f32.store offset=0 (local.get $a) (call $sum (local.get $s10)))
      (f32.store offset=4 (local.get $a) (call $sum (local.get $s11)))
      (local.set $a (i32.add (local.get $a) (local.get $next)))
      (f32.store offset=0 (local.get $a) (call $sum (local.get $s20)))
      (f32.store offset=4 (local.get $a) (call $sum (local.get $s21)))
      (local.set $a (i32.add (local.get $a) (local.get $next)))
      (f32.store offset=0 (local.get $a) (call $sum (local.get $s30)))
      (f32.store offset=4 (local.get $a) (call $sum (local.get $s31)))
      (local.set $w (i32.add (local.get $w) (local.get $width)))
      (br_if $outputs (i32.lt_u (local.tee $out (i32.add (local.get $out) (i32.const 8))) (local.get $end))))))
