"""A small Hub in this process, for tests of the real client: repositories of commits, LFS objects, tokens, faults.

`Hub.log` has each request as "METHOD /path". `Hub.faults` has what goes wrong next: (start of a log line by regular
expression, then "cut", "lost" or an HTTP status); each is used up by the request that meets it. A request that is "cut"
arrives in part; one that is "lost" is done, but its answer does not arrive.
"""

import base64
import hashlib
import json
import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, unquote, urlsplit


WRITE, READ = "hf_write", "hf_read"
REPO = r"(?P<repo>[^/]+/[^/]+)"
KIND = "(?:models|spaces)"
REV = r"(?P<rev>[^/]+)"


class Hub(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, upload_mode: str = "lfs"):
        super().__init__(("127.0.0.1", 0), Handler)
        self.upload_mode = upload_mode  # of weights
        self.url = f"http://127.0.0.1:{self.server_port}"
        self.repos: dict[
            str, dict
        ] = {}  # name -> {"private", "sdk", "refs": {branch: sha}, "commits": {sha: {path: bytes}}}
        self.objects: dict[str, bytes] = {}  # SHA-256 -> what LFS holds
        self.log: list[str] = []
        self.faults: list[tuple[str, str | int]] = []
        self.later_faults: list[tuple[str, str | int]] = []  # from the next commit on
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def commit(self, repo: dict, branch: str, files: dict[str, bytes], parent: str | None) -> str:
        sha = hashlib.sha1(f"{parent}{sorted(files)}{len(repo['commits'])}".encode()).hexdigest()
        repo["commits"][sha] = files
        repo["refs"][branch] = sha
        return sha

    def asked(self, pattern: str) -> list[str]:
        return [line for line in self.log if re.match(pattern, line)]


def lfs(path: str) -> bool:
    return path.endswith(".safetensors")


def blob_id(content: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *arguments):
        pass

    def answer(self):
        url = urlsplit(self.path)
        self.query, line = parse_qs(url.query), f"{self.command} {url.path}"
        self.server.log.append(line)
        fault = next((fault for fault in self.server.faults if re.match(fault[0], line)), None)
        self.cut, self.lost = (fault is not None and fault[1] == kind for kind in ("cut", "lost"))
        length = int(self.headers.get("Content-Length", 0))
        self.body = self.rfile.read(length // 2 if self.cut else length)
        if fault:
            self.server.faults.remove(fault)
            if not self.cut and not self.lost:
                return self.send(fault[1], {"error": "the test's fault"})
            if length and self.cut:
                return self.hang_up()
        for method, pattern, action, rights in ROUTES:
            if self.command in method.split("|") and (match := re.fullmatch(pattern, url.path)):
                token = self.headers.get("Authorization", "").removeprefix("Bearer ")
                if rights and token != WRITE:
                    return self.send(403 if token == READ else 401, {"error": "no right to do this"})
                return action(self, **{name: unquote(value) for name, value in match.groupdict("").items()})
        self.send(404, {"error": "not found"})

    do_GET = do_HEAD = do_POST = do_PUT = answer

    def hang_up(self):
        self.close_connection = True
        self.connection.shutdown(2)

    def send(self, status: int, content=b"", **headers: str):
        if self.lost:
            return self.hang_up()
        content = content if isinstance(content, bytes) else json.dumps(content).encode()
        self.send_response(status)
        for name, value in {"Content-Length": str(len(content)), **headers}.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content[: len(content) // 2] if self.cut else content)
        if self.cut:
            self.hang_up()

    def files(self, repo: str, rev: str) -> tuple[str, dict[str, bytes]] | None:
        """A revision's commit and files; None if it does not exist."""
        known = self.server.repos.get(repo)
        private = known and known["private"] and WRITE not in self.headers.get("Authorization", "")
        sha = known and known["refs"].get(rev, rev)
        if not known or private or sha not in known["commits"]:
            missing = "RevisionNotFound" if known and not private else "RepoNotFound"
            return self.send(404, {"error": missing}, X_Error_Code=missing)
        return sha, known["commits"][sha]

    # The API

    def validate(self):
        metadata = re.match(r"---\n.*?\n---\n", json.loads(self.body)["content"], re.DOTALL)
        self.send(200 if metadata else 400, {"errors": [] if metadata else [{"message": "no metadata"}]})

    def create(self):
        asked = json.loads(self.body)
        name = f"{asked['organization']}/{asked['name']}"
        if is_new := name not in self.server.repos:
            private, sdk = asked.get("visibility") == "private", asked.get("sdk")
            repo = {"private": private, "sdk": sdk, "refs": {}, "commits": {}}
            self.server.repos[name] = repo
            self.server.commit(repo, "main", {".gitattributes": b"*.safetensors filter=lfs\n"}, None)
        self.send(200 if is_new else 409, {"url": f"{self.server.url}/{name}"})

    def branch(self, repo: str, rev: str):
        refs = self.server.repos[repo]["refs"]
        self.send(409 if rev in refs else 200, {})
        refs.setdefault(rev, refs["main"])

    def info(self, repo: str, rev: str = "main"):
        if commit := self.files(repo, rev):
            names = [{"rfilename": path} for path in commit[1]]
            private = self.server.repos[repo]["private"]
            self.send(200, {"id": repo, "sha": commit[0], "private": private, "siblings": names})

    def tree(self, repo: str, rev: str, path: str = ""):
        if not (commit := self.files(repo, rev)):
            return
        inside = {name: content for name, content in commit[1].items() if not path or name.startswith(f"{path}/")}
        if path and not inside:
            return self.send(404, {"error": "no entry"}, X_Error_Code="EntryNotFound")
        entries = []
        for name, content in inside.items():
            entry = {"type": "file", "path": name, "size": len(content), "oid": blob_id(content)}
            if lfs(name):
                digest = hashlib.sha256(content).hexdigest()
                entry["lfs"] = {"oid": digest, "size": len(content), "pointerSize": 130}
            entries.append(entry)
        self.send(200, entries)

    def preupload(self, repo: str, rev: str):
        if commit := self.files(repo, rev):
            answers = []
            for path in (file["path"] for file in json.loads(self.body)["files"]):
                mode = self.server.upload_mode if lfs(path) else "regular"
                there = commit[1].get(path)
                digest = there and (hashlib.sha256(there).hexdigest() if mode == "lfs" else blob_id(there))
                answers.append({"path": path, "uploadMode": mode, "shouldIgnore": False, "oid": digest})
            self.send(200, {"files": answers})

    def make_commit(self, repo: str, rev: str):
        if not (commit := self.files(repo, rev)):
            return
        files, known = dict(commit[1]), self.server.repos[repo]
        for line in map(json.loads, self.body.splitlines()):
            value = line["value"]
            if line["key"] == "file":
                files[value["path"]] = base64.b64decode(value["content"])
            elif line["key"] == "lfsFile":
                files[value["path"]] = self.server.objects[value["oid"]]
            elif line["key"] == "deletedFile":
                del files[value["path"]]
        self.server.faults += self.server.later_faults
        number = len(known["refs"])  # of the pull request, if this is to be one
        sha = self.server.commit(known, f"refs/pr/{number}" if "create_pr" in self.query else rev, files, commit[0])
        url = f"{self.server.url}/{repo}"
        links = {"commitUrl": f"{url}/commit/{sha}", "pullRequestUrl": f"{url}/discussions/{number}"}
        self.send(200, {"commitOid": sha, **links})

    # LFS, and files

    def batch(self, repo: str):
        objects = []
        for asked in json.loads(self.body)["objects"]:
            upload = {"upload": {"href": f"{self.server.url}/objects/{asked['oid']}"}}
            is_there = asked["oid"] in self.server.objects
            objects.append(asked if is_there else {**asked, "actions": upload})
        self.send(200, {"objects": objects, "transfer": "basic"})

    def put(self, oid: str):
        is_whole = hashlib.sha256(self.body).hexdigest() == oid
        if is_whole:
            self.server.objects[oid] = self.body
        self.send(200 if is_whole else 400)

    def resolve(self, repo: str, rev: str, path: str):
        if not (commit := self.files(repo, rev)):
            return
        sha, files = commit
        if path not in files:
            return self.send(404, {"error": "no entry"}, X_Error_Code="EntryNotFound", X_Repo_Commit=sha)
        content, headers = files[path], {"X_Repo_Commit": sha, "ETag": f'"{blob_id(files[path])}"'}
        if lfs(path):
            headers |= {"X_Linked_Etag": f'"{hashlib.sha256(content).hexdigest()}"', "X_Linked_Size": str(len(content))}
        if self.command == "HEAD":
            return self.send(200, content, **headers)
        start = int(re.match(r"bytes=(\d+)|$", self.headers.get("Range", ""))[1] or 0)
        if start:
            headers["Content_Range"] = f"bytes {start}-{len(content) - 1}/{len(content)}"
            self.server.log.append(f"RANGE {path} {start}")
        self.send(206 if start else 200, content[start:], **headers)


# Method, path, action, and whether it takes a token that may write.
ROUTES = [
    ("POST", "/api/validate-yaml", Handler.validate, False),
    ("POST", "/api/repos/create", Handler.create, True),
    ("POST", f"/api/{KIND}/{REPO}/branch/{REV}", Handler.branch, True),
    ("POST", f"/api/{KIND}/{REPO}/preupload/{REV}", Handler.preupload, True),
    ("POST", f"/api/{KIND}/{REPO}/commit/{REV}", Handler.make_commit, True),
    ("GET", f"/api/{KIND}/{REPO}", Handler.info, False),
    ("GET", f"/api/{KIND}/{REPO}/revision/{REV}", Handler.info, False),
    ("GET", f"/api/{KIND}/{REPO}/tree/{REV}(?:/(?P<path>.+))?", Handler.tree, False),
    ("POST", rf"/(?:spaces/)?{REPO}\.git/info/lfs/objects/batch", Handler.batch, True),
    ("PUT", "/objects/(?P<oid>[0-9a-f]+)", Handler.put, False),
    ("HEAD|GET", f"/{REPO}/resolve/{REV}/(?P<path>.+)", Handler.resolve, False),
]
