/* Progressive enhancement of the pages. Without scripts every form works all the same. */
"use strict";

(() => {
  const root = document.documentElement;
  root.classList.add("live");
  const csrf = document.querySelector('meta[name="csrf"]')?.content ?? "";
  const find = (id) => document.getElementById(id);

  /* The server answers with parts of a page; each names the place it belongs to. */
  const read = (text) => new DOMParser().parseFromString(text, "text/html");
  const place = (page) => {
    for (const part of page.querySelectorAll("[data-into]")) {
      const target = find(part.dataset.into);
      if (!target) continue;
      target.replaceChildren(...part.childNodes);
      target.classList.remove("stale");
      if (part.dataset.state !== undefined) target.classList.toggle("stopped", part.dataset.state === "stopped");
    }
  };

  const send = async (form, address, signal) => {
    const answer = await fetch(address, {
      method: "POST",
      body: new URLSearchParams(new FormData(form)),
      headers: { "X-CSRF-Token": csrf, "Tacit-Part": "1" },
      credentials: "same-origin",
      redirect: "error",
      signal,
    });
    return answer.text();
  };

  const form = find("ask");
  if (form) {
    const quote = find("quote");
    const result = find("result");
    const said = find("said");
    const run = find("run");
    const price = find("price");
    let timer = 0;
    let typed = 0;
    let quoting = null;
    let asking = null;

    const fade = () => [quote, price].forEach((part) => part.classList.add("stale"));
    const shown = () => {
      const words = document.querySelector("#trouble [data-said]") ?? quote.querySelector("[data-said]");
      said.textContent = words?.dataset.said ?? "";
      document.dispatchEvent(new Event("quoted"));
    };

    /* A price is shown at once; what is wrong only after a pause, because half a word is always wrong. */
    const refresh = async () => {
      quoting?.abort();
      const mine = (quoting = new AbortController());
      fade();
      try {
        const page = read(await send(form, "/console/quote", mine.signal));
        const early = page.querySelector(".trouble") ? typed + 1200 - performance.now() : 0;
        if (early > 0) await new Promise((done) => setTimeout(done, early));
        if (mine.signal.aborted) return;
        place(page);
        shown();
      } catch (problem) {
        if (problem.name !== "AbortError") said.textContent = "The server cannot be reached just now.";
      }
    };

    form.addEventListener("input", () => {
      quoting?.abort();
      fade();
      typed = performance.now();
      clearTimeout(timer);
      timer = setTimeout(refresh, 350);
    });

    const wait = (on) => {
      form.classList.toggle("busy", on);
      run.disabled = on;
      result.setAttribute("aria-busy", String(on));
      find("stop").hidden = !on;
    };

    const stop = () => {
      asking?.abort();
      said.textContent = "You stopped waiting. If the query was charged already, asking it again is free.";
    };

    /* Below another query than its own, an answer says which it belongs to. */
    const label = (asked) => {
      const words = document.createElement("p");
      words.className = "asked small quiet wrap";
      words.hidden = true;
      const code = document.createElement("code");
      code.textContent = asked;
      words.append("To the query asked before: ", code);
      result.querySelector(".row")?.after(words);
    };
    form.addEventListener("input", () => {
      const words = result.querySelector(".asked");
      if (words) words.hidden = form.elements.sql.value === words.querySelector("code").textContent;
    });

    form.addEventListener("submit", async (event) => {
      if (event.submitter && event.submitter !== run) return;
      event.preventDefault();
      if (asking) return;
      asking = new AbortController();
      const asked = form.elements.sql.value;
      wait(true);
      said.textContent = "Asking.";
      try {
        clearTimeout(timer);
        quoting?.abort();
        place(read(await send(form, "/console/ask", asking.signal)));
        label(asked);
        document.dispatchEvent(new Event("quoted"));
        const heading = result.querySelector("h2");
        const trouble = document.querySelector("#trouble [data-said]");
        said.textContent = heading?.textContent ?? trouble?.dataset.said ?? "";
        arrange();
        if (!heading && trouble) {
          form.elements.sql.focus({ preventScroll: true });
          trouble.scrollIntoView({ block: "nearest" });
        }
        if (heading) {
          heading.focus({ preventScroll: true });
          /* The answer is where one looks: what does not show enough of itself moves up. */
          if (heading.getBoundingClientRect().top > window.innerHeight * 0.6) heading.scrollIntoView({ block: "start" });
        }
      } catch (problem) {
        if (problem.name !== "AbortError") {
          said.textContent = "The server cannot be reached just now. If the query was charged, asking it again is free.";
        }
      } finally {
        asking = null;
        wait(false);
      }
    });

    find("stop").addEventListener("click", stop);
    document.addEventListener("keydown", (event) => {
      if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
        event.preventDefault();
        form.requestSubmit(run);
      } else if (event.key === "Escape" && asking) {
        stop();
      }
    });
  }

  /* Long tables in pages; without scripts they scroll. */
  const arrange = () => {
    for (const table of document.querySelectorAll("table[data-pages]")) {
      const rows = [...table.tBodies[0].rows];
      const size = Number(table.dataset.pages);
      table.removeAttribute("data-pages");
      if (rows.length <= size) continue;
      const last = Math.ceil(rows.length / size) - 1;
      const bar = document.createElement("div");
      bar.className = "pager small";
      const words = document.createElement("span");
      words.setAttribute("aria-live", "polite");
      let page = 0;
      const show = (next) => {
        page = Math.min(Math.max(next, 0), last);
        rows.forEach((row, i) => (row.hidden = Math.floor(i / size) !== page));
        words.textContent = `Rows ${page * size + 1} to ${Math.min((page + 1) * size, rows.length)} of ${rows.length}`;
        back.disabled = page === 0;
        on.disabled = page === last;
      };
      const button = (text, step) => {
        const made = document.createElement("button");
        made.type = "button";
        made.className = "small";
        made.textContent = text;
        made.addEventListener("click", () => show(page + step));
        return made;
      };
      const back = button("Previous rows", -1);
      const on = button("Next rows", 1);
      bar.append(back, words, on);
      table.closest(".scroll").classList.remove("pages");
      table.closest(".scroll").after(bar);
      show(0);
    }
  };

  /* The table as text for a spreadsheet; the server makes it, as it makes the files. */
  document.addEventListener("click", async (event) => {
    const button = event.target.closest?.("[data-copy-table]");
    if (!button) return;
    const asked = button.form ? { method: "POST", body: new URLSearchParams(new FormData(button.form)) } : {};
    try {
      const answer = await fetch(button.dataset.copyTable, { ...asked, credentials: "same-origin", redirect: "error" });
      if (!answer.ok) throw new Error("refused");
      await navigator.clipboard.writeText(await answer.text());
      button.textContent = "Copied";
    } catch {
      button.textContent = "Not copied: use CSV";
    }
  });

  for (const button of document.querySelectorAll("[data-copy]")) {
    button.hidden = false;
    button.addEventListener("click", async () => {
      const field = find(button.dataset.copy);
      field.select();
      try {
        await navigator.clipboard.writeText(field.value);
        button.textContent = "Copied";
      } catch {
        document.execCommand("copy");
      }
    });
  }

  /* On a narrow screen the page one is on is in view; scrollIntoView would also move where the Tab key begins. */
  const current = document.querySelector(".nav [aria-current]");
  if (current) current.parentElement.scrollLeft = current.offsetLeft - 40;

  arrange();

  /* A page that waits for a result reloads itself. */
  const waiting = document.querySelector("[data-again]");
  if (waiting) setTimeout(() => location.reload(), 1000 * Number(waiting.dataset.again));
})();
