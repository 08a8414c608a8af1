// Uploads a menu wish: asks the site for a key, sends the file with it, and waits for the check. The receipt's form is
// replaced while the page is open, so this listens to the document.
"use strict";

(() => {
  const words = {
    clean: (file) => `The kitchen has your wish: ${file.name}.`,
    held: (file) => `${file.name} has arrived. Somebody looks at it.`,
    rejected: (file, status) => `${file.name} was not accepted: ${status.reason}.`,
  };
  let busy = false;

  // A key is for one file of one reservation. A page that was left in the middle has an open one for the file.
  async function send(form, file, options) {
    const { upload, remembered, digest } = await import(form.dataset.script);
    const old = remembered(file, options.place);
    const before = old && await upload(old, file, options).catch((e) => { if (!e.final) throw e; });
    if (before?.state in words) return before;
    const body = JSON.stringify({ name: file.name, type: file.type, size: file.size, sha256: await digest(file) });
    const answer = await fetch(form.action, { method: "POST", body, headers: { "Content-Type": "application/json" } });
    const key = await answer.json().catch(() => ({})); // a proxy may answer in its own words
    if (!answer.ok) throw new Error(key.detail);
    return upload(key.url, file, options);
  }

  document.addEventListener("submit", async (e) => {
    const form = e.target;
    if (form.id !== "wish") return;
    e.preventDefault();
    const file = form.elements.file.files[0];
    const bar = form.querySelector("progress"), said = document.getElementById("wish-said");
    if (busy || !file) return;
    busy = true;
    bar.hidden = false;
    bar.value = 0;
    said.textContent = "Sending your wish…";
    const progress = (done, all) => {
      bar.value = done / all;
      if (done === all) said.textContent = "Checking your wish…";
    };
    try {
      const status = await send(form, file, { progress, place: form.action });
      said.textContent = (words[status.state] ?? (() => "The upload has ended. Please send the file again."))(file, status);
      for (const line of document.querySelectorAll(".wish .before")) line.remove(); // it isn't true any more
      form.reset();
    } catch (fault) {
      said.textContent = `${fault.message || "That didn't work."} You can send the file again.`;
    }
    bar.hidden = true;
    busy = false;
  });
})();
