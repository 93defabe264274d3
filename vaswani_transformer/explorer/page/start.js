// The text is painted before the scripts are fetched: they are ten times as large, and would delay it on a slow line.
const start = () => import("./main.js");

if (document.hidden) start(); // a tab in the background is not painted
else requestAnimationFrame(() => setTimeout(start));
