// Keeps a page true while it is open: refreshes it when something happened, and says so when it cannot.
// Without it every page still works; nothing here decides anything.
"use strict";
(() => {
  const LEAST_GAP = 700; // between two refreshes, in milliseconds
  const REPLY_FOR = 15000;
  const SILENCE = 6000; // after so long without a word the stream counts as broken
  const page = () => document.getElementById("page");
  const byId = (id) => document.getElementById(id);

  // -- time: the server's clock counts, whatever ours says ------------------------------------------------------
  let offset = 0;
  const learnClock = () => {
    offset = Number(page().dataset.now) * 1000 - Date.now();
  };
  const now = () => Date.now() + offset;
  const clock = (at) => new Date(at).toISOString().slice(11, 19);
  const two = (number) => String(number).padStart(2, "0");

  function span(milliseconds) {
    const whole = Math.max(Math.round(milliseconds / 1000), 0);
    if (whole < 60) return `${whole}s`;
    if (whole < 3600) return `${Math.floor(whole / 60)}m${two(whole % 60)}s`;
    if (whole < 86400) return `${Math.floor(whole / 3600)}h${two(Math.floor((whole % 3600) / 60))}m`;
    return `${Math.floor(whole / 86400)}d${two(Math.floor((whole % 86400) / 3600))}h`;
  }

  function tick() {
    for (const element of document.querySelectorAll("time[data-tick]")) {
      const at = Date.parse(element.dateTime);
      const text = span(element.dataset.tick === "until" ? at - now() : now() - at);
      if (element.textContent !== text) element.textContent = text;
    }
  }

  // What is shown is how it was then: no event since, the stream is alive, and the page is still given out.
  function confirmAsOf(at) {
    const shown = byId("as-of")?.querySelector("time");
    const old = byId("as-of-age")?.querySelector("time");
    if (!shown || !old) return;
    shown.textContent = clock(at);
    for (const element of [shown, old]) element.dateTime = new Date(at).toISOString();
    old.textContent = span(now() - at);
  }

  // -- refreshing: the page is asked for once more, and what differs is changed in place ------------------------
  let busy = false;
  let wanted = false;
  let refreshedAt = Date.now();
  let timer = 0;

  function refresh() {
    wanted = true;
    if (busy || timer || document.hidden) return;
    timer = setTimeout(ask, Math.max(refreshedAt + LEAST_GAP - Date.now(), 0));
  }

  async function ask() {
    timer = 0;
    busy = true;
    wanted = false;
    const here = location.pathname + location.search;
    try {
      await htmx.ajax("GET", here, { source: page(), target: "#page", select: "#page", swap: "morph" });
    } catch {
      // the stream says what is wrong
    }
    busy = false;
    refreshedAt = Date.now();
    if (wanted) refresh();
  }

  // What became of a command stays for a while, though the page has gone on since.
  let replyUntil = Date.now() + REPLY_FOR;
  // What is hidden in a form is the server's, such as the mark by which it is known when it is sent again.
  const isControl = (node) => node.matches?.("input:not([type=hidden]), textarea, select, option");
  Object.assign(Idiomorph.defaults.callbacks, {
    // What a reader opened, chose or typed is his.
    beforeAttributeUpdated: (name, node) => {
      if (name === "open" && node.matches("details, dialog")) return false;
      if (isControl(node) && ["value", "checked", "selected"].includes(name)) return false;
      return !(name === "class" && node.matches(".plot"));
    },
    beforeNodeRemoved: (node) => !(node.id === "reply" && Date.now() < replyUntil),
    beforeNodeMorphed: (old, fresh) => {
      if (old.nodeType !== Node.ELEMENT_NODE) return true;
      if (old.matches(".plot")) {
        const data = fresh.getAttribute?.("data-plot");
        if (data && data !== old.getAttribute("data-plot")) {
          old.setAttribute("data-plot", data);
          old.dispatchEvent(new Event("sortie:plot", { bubbles: true }));
        }
        return false;
      }
      return true;
    },
  });

  document.addEventListener("htmx:afterSettle", () => {
    learnClock();
    tick();
  });
  const buildOf = (text) => /data-build="([0-9a-f]+)"/.exec(text)?.[1];
  // Another build of the server has other pages and scripts: this one would not fit them.
  document.addEventListener("htmx:beforeSwap", (event) => {
    const build = buildOf(event.detail.serverResponse);
    if (build && build !== document.body.dataset.build) {
      event.detail.shouldSwap = false;
      location.reload();
    }
    // A page that tells of an error is a page, too.
    if (event.detail.xhr.status >= 400 && build) event.detail.shouldSwap = true;
  });
  // The second click of a double click is none: the page may have changed, and it would hit another button.
  document.addEventListener(
    "click",
    (event) => {
      if (event.detail > 1 && event.target.closest?.("form[method=post] button")) event.preventDefault();
    },
    true,
  );
  document.addEventListener("htmx:afterRequest", (event) => {
    const form = event.detail.elt;
    if (form === page()) return refreshed(event.detail);
    if (form.tagName !== "FORM") return;
    replyUntil = Date.now() + REPLY_FOR;
    if (byId("reply")?.dataset.ok === "true") form.reset();
    byId("reply")?.scrollIntoView({ block: "nearest" });
  });
  setTimeout(() => {
    const address = new URL(location.href);
    if (!address.searchParams.has("reply")) return;
    address.searchParams.delete("reply");
    history.replaceState(null, "", address);
  }, REPLY_FOR);

  // -- the stream -------------------------------------------------------------------------------------------------
  let heardAt = 0; // by the server's clock; 0 before the first word, and while nobody is expected to speak
  let broken = false;
  let current = true; // whether the last refresh was answered with what the page shows
  let currentAt = now();

  function refreshed({ successful, xhr }) {
    if (successful && !current) fresh();
    current = Boolean(successful);
    if (current) currentAt = now();
    // A page of ours that tells of an error is shown instead; anything else leaves what was there.
    else if (!buildOf(xhr.responseText)) stale(currentAt, "The server does not give out this page any more.");
  }

  function stale(since, why) {
    const banner = byId("stale");
    banner.replaceChildren();
    const strong = document.createElement("strong");
    strong.textContent = `Stale since ${clock(since)}.`;
    banner.append(strong, ` ${why}`);
    banner.classList.add("banner-stale");
    banner.hidden = false;
    document.body.classList.add("is-stale");
  }

  function fresh() {
    broken = false;
    document.body.classList.remove("is-stale");
  }

  function listen() {
    const stream = new EventSource("/api/v2/events/stream");
    stream.addEventListener("open", () => {
      refresh(); // something may have happened between the page and its stream
      fresh();
    });
    stream.addEventListener("error", () => {
      if (!broken) stale(heardAt || now(), "The connection to the server is broken; what you see is how it was then.");
      broken = true;
      heardAt = 0;
      if (stream.readyState === EventSource.CLOSED) setTimeout(listen, 2000);
    });
    stream.addEventListener("change", () => refresh());
    stream.addEventListener("reset", () => refresh()); // another store is behind the same address
    stream.addEventListener("stale", (event) => {
      const since = JSON.parse(event.data).since * 1000;
      // Where nobody spoke before, the page says already that there is no service.
      if (heardAt) stale(since, "The service says nothing any more; what you see is how it was then.");
      heardAt = 0;
      refresh(); // the server's own sentence stays
    });
    let looked = Date.now();
    stream.addEventListener("live", () => {
      heardAt = now();
      if (document.body.classList.contains("is-stale")) {
        if (current) fresh();
        refresh();
      }
      const seconds = Number(page().dataset.follow);
      if (seconds && Date.now() - looked >= seconds * 1000) {
        looked = Date.now();
        refresh();
      } else if (current && !busy && !timer && !wanted) {
        currentAt = now();
        confirmAsOf(currentAt);
      }
    });
  }

  setInterval(() => {
    tick();
    if (heardAt && now() - heardAt > SILENCE) {
      stale(heardAt, "The server says nothing any more; what you see is how it was then.");
      broken = true;
      heardAt = 0;
    }
  }, 1000);
  document.addEventListener("visibilitychange", () => {
    if (!document.hidden) refresh();
  });

  // -- keys ---------------------------------------------------------------------------------------------------------
  let afterG = 0;

  function rows() {
    return [...document.querySelectorAll("[data-row]")].filter((row) => row.offsetParent !== null);
  }

  function step(by) {
    const all = rows();
    if (!all.length) return;
    const at = all.findIndex((row) => row.contains(document.activeElement));
    const next = all[Math.min(Math.max(at + by, 0), all.length - 1)];
    (next.querySelector("a[href]") ?? next).focus();
    next.scrollIntoView({ block: "nearest" });
  }

  document.addEventListener("keydown", (event) => {
    const typing = event.target.closest?.("input, textarea, select, [contenteditable]");
    if (event.key === "Escape" && typing) return typing.blur();
    if (typing || event.ctrlKey || event.metaKey || event.altKey || byId("help").open) return;
    if (afterG && Date.now() - afterG < 1500) {
      afterG = 0;
      if (event.key === "i") location.assign("/#needs-you");
      else document.querySelector(`nav a[data-key="${CSS.escape(event.key)}"]`)?.click();
      return event.preventDefault();
    }
    if (event.key === "g") afterG = Date.now();
    else if (event.key === "j") step(1);
    else if (event.key === "k") step(-1);
    else if (event.key === "/") byId("find").focus();
    else if (event.key === "?") byId("help").showModal();
    else return;
    event.preventDefault();
  });

  document.body.classList.add("is-live");
  learnClock();
  tick();
  listen();
})();
