// A page that only shows is fetched again each five seconds, while somebody looks at it. What has the focus keeps it.
// Nothing is fetched while somebody types or has selected text, such as an ID to copy.
"use strict";
(() => {
  const live = () => document.querySelector("main[data-live]");
  const ways = (main) => [...main.querySelectorAll("a, button, summary, [tabindex]")];
  const same = (x, y) => x.textContent === y.textContent && x.getAttribute("href") === y.getAttribute("href");
  const occupied = (main) => main.contains(document.activeElement) && document.activeElement.matches("input, textarea, select") ||
    !getSelection().isCollapsed && main.contains(getSelection().anchorNode);

  // put shows what was fetched in place of what is there.
  const put = (main, next) => {
    const focus = document.activeElement, at = ways(main).indexOf(focus);
    const open = [...main.querySelectorAll("details")].map((x) => x.open);
    const across = [...main.querySelectorAll(".wide, pre")].map((x) => x.scrollLeft);
    main.replaceChildren(...next.childNodes);
    main.querySelectorAll("details").forEach((x, i) => { x.open = open[i] ?? x.open; });
    main.querySelectorAll(".wide, pre").forEach((x, i) => { x.scrollLeft = across[i] || 0; });
    if (at < 0) return;
    const now = ways(main);
    (now[at] && same(now[at], focus) ? now[at] : now.find((x) => same(x, focus)) || main).focus({ preventScroll: true });
  };

  let busy = false;
  const again = async () => {
    const main = live();
    if (busy || document.hidden || !main || occupied(main)) return;
    busy = true;
    try {
      const answer = await fetch(location.href, { headers: { Accept: "text/html" }, cache: "no-store" });
      if (answer.redirected || !answer.headers.get("Content-Type")?.startsWith("text/html")) return;
      const next = new DOMParser().parseFromString(await answer.text(), "text/html").querySelector("main[data-live]");
      if (next && live() === main && !occupied(main)) put(main, next);
    } catch {
      // The next round tries again.
    } finally {
      busy = false;
    }
  };
  if (live()) {
    setInterval(again, 5000);
    document.addEventListener("visibilitychange", again);
  }

  // The menu closes by a click elsewhere, and by the key that closes things.
  const menu = document.querySelector("details.menu");
  if (!menu) return;
  document.addEventListener("click", (e) => { if (!menu.contains(e.target)) menu.open = false; });
  menu.addEventListener("keydown", (e) => {
    if (e.key !== "Escape" || !menu.open) return;
    menu.open = false;
    menu.querySelector("summary").focus();
  });
})();
