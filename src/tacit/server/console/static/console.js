/* Progressive enhancement of the pages. Without scripts every form works all the same. */
"use strict";

(() => {
  const root = document.documentElement;
  root.classList.add("live");
  const csrf = document.querySelector('meta[name="csrf"]')?.content ?? "";
  const find = (id) => document.getElementById(id);

  /* The server answers with parts of a page; each names the place it belongs to. */
  const place = (text) => {
    const page = new DOMParser().parseFromString(text, "text/html");
    let first = null;
    for (const part of page.querySelectorAll("[data-into]")) {
      const target = find(part.dataset.into);
      if (!target) continue;
      target.replaceChildren(...part.childNodes);
      target.classList.remove("stale");
      if (part.dataset.state !== undefined) target.classList.toggle("stopped", part.dataset.state === "stopped");
      first = first ?? target;
    }
    return first;
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
    let timer = 0;
    let quoting = null;
    let asking = null;

    const refresh = async () => {
      quoting?.abort();
      const mine = (quoting = new AbortController());
      quote.classList.add("stale");
      try {
        place(await send(form, "/console/quote", mine.signal));
        said.textContent = quote.querySelector("[data-said]")?.dataset.said ?? "";
      } catch (problem) {
        if (problem.name !== "AbortError") said.textContent = "The server cannot be reached just now.";
      }
    };

    form.addEventListener("input", () => {
      quote.classList.add("stale");
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
      said.textContent = "You stopped waiting. If the question was charged already, asking it again is free.";
    };

    form.addEventListener("submit", async (event) => {
      if (event.submitter && event.submitter !== run) return;
      event.preventDefault();
      if (asking) return;
      asking = new AbortController();
      wait(true);
      said.textContent = "Asking.";
      try {
        place(await send(form, "/console/ask", asking.signal));
        const heading = result.querySelector("h2");
        said.textContent = heading ? heading.textContent : "";
        heading?.focus();
      } catch (problem) {
        if (problem.name !== "AbortError") {
          said.textContent = "The server cannot be reached just now. If the question was charged, asking it again is free.";
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

    for (const button of document.querySelectorAll("[data-write]")) {
      button.addEventListener("click", () => {
        form.elements.sql.value = button.dataset.write;
        form.elements.sql.focus();
        refresh();
      });
    }
  }

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

  /* A page that waits for a result reloads itself. */
  const waiting = document.querySelector("[data-again]");
  if (waiting) setTimeout(() => location.reload(), 1000 * Number(waiting.dataset.again));
})();
