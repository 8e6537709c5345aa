/* The editor: colours and completion over a plain text field, and a draft that outlives a reload.
   Without this script the field is an ordinary one. Texts are put on the page as text, never as markup. */
"use strict";

(() => {
  const area = document.getElementById("sql");
  const source = document.getElementById("words");
  if (!area || !source) return;
  const form = area.form;
  const box = area.closest(".code-box");
  const paint = box.querySelector(".paint");
  const list = document.getElementById("completions");
  const said = document.getElementById("said");
  const words = JSON.parse(source.dataset.words);
  const plain = (name) => (name.startsWith('"') ? name.slice(1, -1).replaceAll('""', '"') : name).toLowerCase();
  const tables = new Map(Object.entries(words.tables).map(([name, about]) => [plain(name), { name, ...about }]));
  const columns = new Set([...tables.values()].flatMap((t) => t.columns.map((c) => plain(c.name))));
  const functions = new Set(words.functions.map((name) => name.toLowerCase()));
  const keywords = new Set(words.keywords.map((name) => name.toLowerCase()));
  const TOKEN = /--[^\n]*|\/\*[\s\S]*?(?:\*\/|$)|'(?:[^']|'')*'?|"(?:[^"]|"")*"?|\d+(?:\.\d+)?|[\p{L}_][\p{L}\p{N}_$]*|\s+|[\s\S]/gu;

  /* Colours. */
  const kind = (text) => {
    if (/^(--|\/\*)/.test(text)) return "comment";
    if (text[0] === "'") return "string";
    if (/^\d/.test(text)) return "number";
    const name = plain(text);
    if (text[0] !== '"' && keywords.has(name)) return "keyword";
    if (tables.has(name)) return "table";
    if (columns.has(name)) return "column";
    return functions.has(name) ? "function" : "";
  };
  const draw = () => {
    const parts = [];
    for (const [text] of area.value.matchAll(TOKEN)) {
      const span = document.createElement("span");
      span.textContent = text;
      span.className = /^\s/.test(text) ? "" : kind(text);
      parts.push(span);
    }
    /* A line that is still empty has no height of its own. */
    parts.push(document.createTextNode("\u200b"));
    paint.replaceChildren(...parts);
  };

  /* Completion: what may stand at the caret, by what stands before it. */
  const named = () => {
    const found = new Map();
    const pattern = /\b(?:from|join|,)\s+("(?:[^"]|"")+"|[\p{L}_][\p{L}\p{N}_]*)(?:\s+(?:as\s+)?([\p{L}_][\p{L}\p{N}_]*))?/giu;
    for (const [, name, alias] of area.value.matchAll(pattern)) {
      const table = tables.get(plain(name));
      if (!table) continue;
      found.set(plain(name), table);
      if (alias && !keywords.has(alias.toLowerCase())) found.set(alias.toLowerCase(), table);
    }
    return found;
  };
  const option = (text, type, rest = "") => ({ text, type, rest });
  const keysBefore = (text) => {
    const found = /("(?:[^"]|"")+"|[\p{L}_][\p{L}\p{N}_]*)\s*(?:=|<>|!=|\bin\s*\((?:[^()]*,)?)\s*$/iu.exec(text);
    if (!found) return [];
    const near = [...named().values(), ...tables.values()].flatMap((t) => t.columns);
    return near.find((c) => plain(c.name) === plain(found[1]) && c.keys.length)?.keys ?? [];
  };
  const offers = (asked) => {
    const at = area.selectionStart;
    if (at !== area.selectionEnd) return null;
    const before = area.value.slice(0, at);
    const last = [...before.matchAll(TOKEN)].at(-1);
    const text = last?.[0] ?? "";
    if (/^(--|\/\*)/.test(text) && !/\*\/$/.test(text)) return null;
    if (text[0] === "'" && (text.length === 1 || !/[^']'(?:'')*$|^'(?:'')+$/.test(text))) {
      const typed = text.slice(1).toLowerCase();
      const keys = keysBefore(before.slice(0, last.index)).filter((key) => key[0] === "'");
      const fit = keys.filter((key) => key.slice(1).toLowerCase().startsWith(typed));
      return { start: last.index, typed: text, fit: fit.map((key) => option(key, "value")) };
    }
    const word = /[\p{L}_][\p{L}\p{N}_]*$/u.exec(before)?.[0] ?? "";
    const start = at - word.length;
    const ahead = before.slice(0, start);
    const known = named();
    const own = /("(?:[^"]|"")+"|[\p{L}_][\p{L}\p{N}_]*)\.$/u.exec(ahead);
    const small = word.toLowerCase();
    const fits = (each) => plain(each.text).replace(/^'/, "").startsWith(small);
    const columnOptions = (from) => from.flatMap((t) => t.columns.map((c) => option(c.name, "column", c.type)));
    const tableOptions = [...tables.values()].map((t) => option(t.name, "table", t.public ? "public" : ""));
    let all = [];
    if (own) {
      const table = known.get(plain(own[1])) ?? tables.get(plain(own[1]));
      all = table ? columnOptions([table]) : [];
    } else if (/\b(?:from|join)\s+$/i.test(ahead)) {
      all = tableOptions;
    } else {
      if (!word && !asked) return null;
      /* After a whole expression there is a word of SQL, or an alias, which nobody can know; after AS an alias alone. */
      const previous = [...ahead.matchAll(TOKEN)].map(([each]) => each).filter((each) => !/^(\s|--|\/\*)/.test(each)).at(-1) ?? "";
      const typeNext = /\bcast\s*\([^()]*\bas\s+$/i.test(ahead);
      if (/^as$/i.test(previous) && !typeNext) return null;
      if (typeNext || previous === ")" || (/^[\p{L}_\d"']/u.test(previous) && !keywords.has(previous.toLowerCase()))) {
        const fit = words.keywords.map((name) => option(name, "keyword")).filter(fits);
        return { start, typed: word, fit: typeNext || word.length > 1 || asked ? fit : [] };
      }
      const near = known.size ? [...new Set(known.values())] : [...tables.values()];
      all = [
        ...keysBefore(ahead).map((key) => option(key, "value")),
        ...columnOptions(near),
        ...words.functions.map((name) => option(`${name}(`, "function")),
        ...words.keywords.map((name) => option(name, "keyword")),
        ...tableOptions,
      ];
    }
    const seen = new Set();
    const fit = all.filter((each) => fits(each) && !seen.has(each.text) && seen.add(each.text));
    return { start, typed: word, fit };
  };

  const MOST = 8;
  /* Height of about three suggestions, in pixels. */
  const FEW = 84;
  let open = null;
  let chosen = -1;
  const close = () => {
    open = null;
    chosen = -1;
    list.hidden = true;
    area.removeAttribute("aria-activedescendant");
  };
  const choose = (index) => {
    chosen = (index + open.fit.length) % open.fit.length;
    [...list.children].forEach((item, i) => item.setAttribute("aria-selected", String(i === chosen)));
    area.setAttribute("aria-activedescendant", `completion-${chosen}`);
    list.children[chosen].scrollIntoView({ block: "nearest" });
  };
  const move = () => {
    /* Below the place where the word begins, as the coloured text has it. */
    let left = open.start;
    const walker = document.createTreeWalker(paint, NodeFilter.SHOW_TEXT);
    let node = walker.nextNode();
    while (node && left > node.length) {
      left -= node.length;
      node = walker.nextNode();
    }
    const range = document.createRange();
    if (node) range.setStart(node, Math.min(left, node.length));
    const spot = range.getBoundingClientRect();
    const frame = box.getBoundingClientRect();
    list.style.left = `${Math.max(0, Math.min(spot.left - frame.left, frame.width - list.offsetWidth))}px`;
    /* It covers neither the price and the button that pays it, below, nor the head of the page, above. */
    const floor = document.getElementById("price")?.getBoundingClientRect().top ?? window.innerHeight;
    const roof = document.querySelector("header")?.getBoundingClientRect().bottom ?? 0;
    const under = floor - spot.bottom - 8;
    const over = spot.top - roof - 8;
    const below = under >= Math.min(over, FEW);
    list.style.maxHeight = `${Math.max(below ? under : over, FEW)}px`;
    list.style.top = `${below ? spot.bottom - frame.top + 4 : spot.top - frame.top - list.offsetHeight - 4}px`;
  };
  const offer = (asked = false) => {
    const found = offers(asked);
    /* A word that is whole asks for nothing more. */
    if (!found?.fit.length || found.fit.some((each) => plain(each.text) === plain(found.typed))) {
      close();
      return;
    }
    open = { ...found, fit: found.fit.slice(0, MOST) };
    list.replaceChildren(
      ...open.fit.map((each, i) => {
        const item = document.createElement("li");
        item.id = `completion-${i}`;
        item.setAttribute("role", "option");
        item.setAttribute("aria-selected", "false");
        const name = document.createElement("span");
        name.textContent = each.text;
        name.className = each.type;
        const about = document.createElement("span");
        about.className = "about";
        about.textContent = each.rest || each.type;
        item.append(name, about);
        item.addEventListener("mousedown", (event) => {
          event.preventDefault();
          choose(i);
          take();
        });
        return item;
      }),
    );
    list.hidden = false;
    move();
    choose(0);
  };
  /* Typed by the browser itself, so that undo takes it back. */
  const put = (text, from, to) => {
    area.focus();
    area.setSelectionRange(from, to);
    if (!document.execCommand("insertText", false, text)) {
      area.setRangeText(text, from, to, "end");
      area.dispatchEvent(new Event("input", { bubbles: true }));
    }
  };
  const take = () => {
    const { start } = open;
    const { text } = open.fit[chosen];
    let end = area.selectionEnd;
    if (text.endsWith("'") && area.value[end] === "'") end += 1;
    close();
    put(text, start, end);
    close();
  };

  area.addEventListener("keydown", (event) => {
    if (event.isComposing) return;
    if (event.key === " " && event.ctrlKey) {
      event.preventDefault();
      offer(true);
      if (open) said.textContent = `${open.fit.length} suggestions, the first is ${open.fit[0].text}.`;
      return;
    }
    if (!open || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      choose(chosen + (event.key === "ArrowDown" ? 1 : -1));
    } else if ((event.key === "Tab" && !event.shiftKey) || (event.key === "Enter" && open.picked)) {
      event.preventDefault();
      take();
    } else if (event.key === "Escape") {
      event.preventDefault();
      event.stopPropagation();
      close();
    }
    if (open && event.key.startsWith("Arrow")) open.picked = true;
  });
  area.addEventListener("blur", close);
  area.addEventListener("click", close);
  area.addEventListener("input", (event) => {
    draw();
    keep();
    if (event.inputType?.startsWith("insert") && event.inputType !== "insertFromPaste") offer();
    else close();
  });
  document.addEventListener("quoted", () => {
    area.setAttribute("aria-invalid", String(Boolean(document.querySelector("#trouble .trouble"))));
    if (open) move();
  });

  /* A draft for this tab and this person; it is dropped when they sign out. */
  const place = `tacit draft ${form.dataset.person}`;
  const FIELDS = ["sql", "pay", "amount", "confidence"];
  const keep = () => {
    try {
      sessionStorage.setItem(place, JSON.stringify(Object.fromEntries(FIELDS.map((name) => [name, form.elements[name].value]))));
    } catch {
      /* Without storage there is no draft. */
    }
  };
  form.addEventListener("input", () => keep());
  document.querySelector('form[action="/console/sign-out"]')?.addEventListener("submit", () => sessionStorage.removeItem(place));
  if (form.dataset.empty !== undefined && !area.value) {
    try {
      const draft = JSON.parse(sessionStorage.getItem(place) ?? "null");
      for (const name of draft?.sql ? FIELDS : []) {
        if (typeof draft[name] === "string") form.elements[name].value = draft[name];
      }
      if (draft?.sql) form.dispatchEvent(new Event("input", { bubbles: true }));
    } catch {
      sessionStorage.removeItem(place);
    }
  } else {
    keep();
  }

  document.addEventListener("click", (event) => {
    const button = event.target.closest?.("[data-write]");
    if (!button || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    put(button.dataset.write, 0, area.value.length);
    close();
  });
  const link = document.getElementById("link");
  link.addEventListener("click", async () => {
    const asked = new URL("/console/ask", location.href);
    asked.searchParams.set("sql", area.value);
    asked.searchParams.set(form.elements.pay.value, form.elements.amount.value);
    const text = asked.href;
    if (asked.pathname.length + asked.search.length > 2000) {
      said.textContent = link.textContent = "Too long for a link";
      return;
    }
    try {
      await navigator.clipboard.writeText(text);
      said.textContent = link.textContent = "Link copied";
    } catch {
      said.textContent = "The browser does not let pages copy here.";
    }
  });

  box.classList.add("painted");
  area.setAttribute("aria-autocomplete", "list");
  area.setAttribute("aria-controls", "completions");
  draw();
  document.dispatchEvent(new Event("quoted"));
})();
