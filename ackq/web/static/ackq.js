// The page works without this script, which adds the theme switch, live figures and shortcuts.
// It sets text as text, and asks only the server that it came from.
"use strict";

(() => {
  const root = document.documentElement;
  const THEMES = ["auto", "dark", "light"];

  function storedTheme() {
    try {
      return localStorage.getItem("ackq-theme") || "auto";
    } catch {
      return "auto"; // storage is switched off
    }
  }

  // At once, so that a dark page does not flash white.
  root.dataset.theme = storedTheme();

  function addThemeSwitch() {
    const button = document.querySelector("[data-theme-switch]");
    const show = () => {
      button.textContent = `Theme: ${root.dataset.theme}`;
    };
    button.hidden = false;
    show();
    button.addEventListener("click", () => {
      root.dataset.theme = THEMES[(THEMES.indexOf(root.dataset.theme) + 1) % THEMES.length];
      try {
        localStorage.setItem("ackq-theme", root.dataset.theme);
      } catch {
        // It holds for this page.
      }
      show();
    });
  }

  function addShortcuts() {
    document.addEventListener("keydown", (event) => {
      const typing = event.target.closest("input, select, textarea");
      const search = document.querySelector("input[type=search]");
      if (event.key === "/" && !typing && search && !event.ctrlKey && !event.metaKey) {
        event.preventDefault();
        search.focus();
      } else if (event.key === "Escape" && typing) {
        typing.blur();
      }
    });
  }

  function show(found) {
    for (const element of document.querySelectorAll("[data-value]")) {
      const text = found.values[element.dataset.value];
      if (text !== undefined && element.textContent !== text) element.textContent = text;
    }
    for (const bar of document.querySelectorAll("[data-progress]")) {
      bar.value = Number(found.values[bar.dataset.progress]);
    }
    for (const line of document.querySelectorAll("[data-line]")) {
      const points = found.points[line.dataset.line];
      if (points !== undefined) {
        line.setAttribute("points", points);
        const ends = points && [points, points.slice(points.lastIndexOf(" ") + 1)];
        const [from, to] = ends ? ends.map((each) => each.split(",", 1)[0]) : [];
        line.previousElementSibling.setAttribute("points", ends && `${from},28 ${points} ${to},28`);
      }
    }
  }

  function goLive(main) {
    const status = document.querySelector("[data-status]");
    let wait = Number(main.dataset.interval);
    let submitting = false; // a reload would cancel it
    document.addEventListener("submit", () => {
      submitting = true;
    });

    async function update() {
      if (!document.hidden) {
        try {
          const reply = await fetch(main.dataset.live, { cache: "no-store" });
          if (!reply.ok) throw new Error(`status ${reply.status}`);
          const found = await reply.json();
          const typing = document.activeElement?.matches("input, select");
          if (found.signature !== main.dataset.signature && !typing && !submitting) {
            location.reload(); // other queues than before
            return;
          }
          if (found.signature === main.dataset.signature) show(found);
          wait = found.interval;
          status.textContent = found.trouble ? "Not up to date" : `Live, ${found.at}`;
          status.classList.toggle("bad", found.trouble);
          for (const box of document.querySelectorAll("[data-trouble]")) box.hidden = !found.trouble;
        } catch (error) {
          status.textContent = `Not updated: ${error.message}`;
          status.classList.add("bad");
        }
      }
      setTimeout(update, wait * 1000);
    }
    setTimeout(update, wait * 1000);
  }

  // A part of a page without figures in JSON: it is read again and replaced, unless somebody uses it.
  function keepFresh(main) {
    const status = main.matches("main") && document.querySelector("[data-status]");
    const tell = (text, bad) => {
      if (!status) return;
      status.textContent = text;
      status.classList.toggle("bad", bad);
    };
    const inUse = () =>
      document.hidden ||
      !getSelection().isCollapsed ||
      main.querySelector("input:checked") ||
      (main !== document.activeElement && main.contains(document.activeElement));

    async function update() {
      if (!inUse()) {
        try {
          const reply = await fetch(location.href, { cache: "no-store" });
          if (!reply.ok) throw new Error(`status ${reply.status}`);
          const html = new DOMParser().parseFromString(await reply.text(), "text/html");
          const found = html.getElementById(main.id);
          if (!inUse() && found && found.innerHTML !== main.innerHTML) {
            main.replaceChildren(...found.childNodes);
          }
          const now = new Date().toISOString();
          tell(`Live, ${now.slice(0, 10)} ${now.slice(11, 19)} UTC`, false);
        } catch (error) {
          tell(`Not updated: ${error.message}`, true);
        }
      }
      setTimeout(update, Number(main.dataset.refresh) * 1000);
    }
    setTimeout(update, Number(main.dataset.refresh) * 1000);
  }

  document.addEventListener("DOMContentLoaded", () => {
    addThemeSwitch();
    addShortcuts();
    const main = document.querySelector("main");
    if (main.dataset.live) goLive(main);
    document.querySelectorAll("[data-refresh]").forEach(keepFresh);
  });
})();
