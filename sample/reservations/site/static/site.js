// Keeps a receipt up to date while something is being decided. Without this file the page reloads itself.
"use strict";

(() => {
  const receipt = document.getElementById("receipt");
  const said = document.getElementById("said");

  // The answer to a POST has an address that can't be loaded again; this one can.
  history.replaceState(null, "", receipt.dataset.self);

  // Takes the page as the server renders it now, so that all words live in its templates.
  async function refresh() {
    const answer = await fetch(receipt.dataset.self, { headers: { Accept: "text/html" }, cache: "no-store" });
    if (!answer.ok) throw new Error(answer.statusText);
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    const next = page.getElementById("receipt");
    const hadFocus = receipt.contains(document.activeElement);
    for (const name of ["status", "self", "events"]) {
      if (name in next.dataset) receipt.dataset[name] = next.dataset[name];
      else delete receipt.dataset[name];
    }
    receipt.replaceChildren(...next.childNodes);
    document.title = page.title;
    said.textContent = receipt.querySelector("h1").textContent;
    if (hadFocus) receipt.querySelector("h1").focus();
  }

  function watch() {
    if (!receipt.dataset.events) return; // nothing is expected to change
    const events = new EventSource(receipt.dataset.events);
    const again = () => refresh().then(watch, () => setTimeout(again, 5000));
    events.addEventListener("status", (e) => {
      if (JSON.parse(e.data).status === receipt.dataset.status) return;
      events.close();
      again();
    });
    events.addEventListener("error", () => {
      // A stream that ended is opened again by the browser; one that was refused is not.
      if (events.readyState === EventSource.CLOSED) setTimeout(again, 5000);
    });
  }

  watch();
})();
