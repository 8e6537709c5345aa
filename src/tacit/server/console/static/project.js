/* Pages that write a project file. A form that is marked live is sent when a field was changed, and the page is renewed
   in place; without this script a button does the same. The click that leaves a field may send another form or go to
   another page: it waits until the change is taken over. */
"use strict";

(() => {
  const find = (id) => document.getElementById(id);
  let sending = Promise.resolve();
  let waiting = 0;
  let leaving = false;

  /* The lines of the file that the page is about are in view. */
  const look = () => {
    const here = find("here");
    if (here) here.parentElement.scrollTop = here.offsetTop - here.parentElement.offsetTop - 60;
  };
  look();

  /* Parts that say what a choice means; the form itself stays, so that no letter and no focus is lost. */
  const renew = (page) => {
    for (const id of ["file", "view", "facts", "trouble", "checks"]) {
      const now = find(id);
      const next = page.getElementById(id);
      if (now && next) now.replaceWith(next);
      else if (now && !next && id === "trouble") now.remove();
    }
    look();
    const notice = page.getElementById("problem");
    find("problem")?.remove();
    if (notice) find("desk").prepend(notice);
    const revision = page.querySelector('input[name="revision"]')?.value;
    if (revision) for (const field of document.querySelectorAll('input[name="revision"]')) field.value = revision;
  };

  const send = async (form) => {
    const answer = await fetch(form.action, {
      method: "POST",
      body: new URLSearchParams(new FormData(form)),
      credentials: "same-origin",
    });
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    /* Where the page has other parts now than before, it is shown anew. */
    const parts = (of) => [...of.querySelectorAll("#desk > section[aria-labelledby]")].map((part) => part.getAttribute("aria-labelledby")).join();
    if (answer.ok && !leaving && parts(page) !== parts(document)) location.reload();
    else renew(page);
  };

  document.addEventListener("change", (event) => {
    const form = event.target.closest("form[data-live]");
    if (!form || event.target.hasAttribute("data-slow")) return;
    waiting += 1;
    sending = sending.then(() => send(form)).catch(() => {}).finally(() => { waiting -= 1; });
  });

  const after = (event, go) => {
    if (!waiting) return;
    event.preventDefault();
    leaving = true;
    sending.then(go);
  };
  document.addEventListener("submit", (event) => {
    const { target, submitter } = event;
    after(event, () => target.requestSubmit(submitter));
  });
  document.addEventListener("click", (event) => {
    const link = event.target.closest("a[href]");
    if (link && !event.ctrlKey && !event.metaKey && !event.shiftKey) after(event, () => { location.href = link.href; });
  });

  document.addEventListener("click", (event) => {
    const button = event.target.closest("button");
    if (!button) return;
    if (button.dataset.high !== undefined) {
      find("low").value = button.dataset.low;
      find("high").value = button.dataset.high;
      find("high").dispatchEvent(new Event("change", { bubbles: true }));
    }
    if (button.id === "list-them") {
      const values = [...find("view").querySelectorAll("section[aria-labelledby=there] tbody [data-value]")];
      find("categories").value = values.map((each) => each.dataset.value).join("\n");
      find("categories").dispatchEvent(new Event("change", { bubbles: true }));
    }
  });

  const source = document.querySelector("input[data-complete]");
  if (source) {
    let last = "";
    source.addEventListener("input", async () => {
      const folder = source.value.replace(/[^/]*$/, "");
      if (folder === last) return;
      last = folder;
      try {
        const answer = await fetch(`${source.dataset.complete}?near=${encodeURIComponent(folder)}`, { credentials: "same-origin" });
        const names = await answer.json();
        find("files").replaceChildren(...names.map((name) => Object.assign(document.createElement("option"), { value: name })));
      } catch {
        /* The field works without. */
      }
    });
  }
})();
