// A page that only shows is fetched again each five seconds, while somebody looks at it and types nothing.
"use strict";
(() => {
  const live = () => document.querySelector("main[data-live]");
  if (!live()) return;
  let busy = false;
  const again = async () => {
    const now = live();
    if (busy || document.hidden || !now || now.contains(document.activeElement) && document.activeElement !== now) return;
    busy = true;
    try {
      const answer = await fetch(location.href, { headers: { Accept: "text/html" }, cache: "no-store" });
      if (answer.redirected || !answer.headers.get("Content-Type")?.startsWith("text/html")) return;
      const next = new DOMParser().parseFromString(await answer.text(), "text/html").querySelector("main[data-live]");
      const old = live();
      if (next && old && !(old.contains(document.activeElement) && document.activeElement !== old)) {
        const open = [...old.querySelectorAll("details")].map((x) => x.open);
        const across = [...old.querySelectorAll(".wide, pre")].map((x) => x.scrollLeft);
        old.replaceChildren(...next.childNodes);
        old.querySelectorAll("details").forEach((x, i) => { x.open = open[i] || x.open; });
        old.querySelectorAll(".wide, pre").forEach((x, i) => { x.scrollLeft = across[i] || 0; });
      }
    } catch {
      // The next round tries again.
    } finally {
      busy = false;
    }
  };
  setInterval(again, 5000);
  document.addEventListener("visibilitychange", again);
})();
