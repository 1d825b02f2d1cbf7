// Keeps a page true while it is open: refreshes it when something happened, and says so when it cannot.
// Without it every page still works; nothing here decides anything.
"use strict";
(() => {
  const LEAST_GAP = 700; // between two refreshes, in milliseconds
  const REPLY_FOR = 15000;
  const HELD =
    "Your text has no place in the page as it is now: its question is settled, or you may not answer it any more. " +
    "Send it, copy it elsewhere, or clear it.";
  const BROKEN = "The connection to the server is broken; what you see is how it was then.";
  const REFUSED = "The server does not tell what happens now; what you see is how it was then.";
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

  // What is hidden in a form is the server's, such as the mark by which it is known when it is sent again.
  const isControl = (node) => node.matches?.("input:not([type=hidden]), textarea, select, option");
  Object.assign(Idiomorph.defaults.callbacks, {
    // What a reader opened, chose or typed is his.
    beforeAttributeUpdated: (name, node) => {
      if (name === "open" && node.matches("details, dialog")) return false;
      if (isControl(node) && ["value", "checked", "selected"].includes(name)) return false;
      return !(name === "class" && node.matches(".plot"));
    },
    beforeNodeRemoved: (node) => !(node.id === "reply" && isTold(node)),
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
  const shown = new WeakSet(); // the requests whose answers are
  document.addEventListener("htmx:beforeSwap", ({ detail }) => {
    const { requestConfig, xhr } = detail;
    detail.shouldSwap = requestConfig.elt === page() ? isFit(xhr) : isTaken(xhr, requestConfig.elt);
    if (detail.shouldSwap) shown.add(xhr);
  });
  document.addEventListener("htmx:afterRequest", ({ detail }) => {
    const { requestConfig, successful, xhr } = detail;
    if (requestConfig.elt === page()) return refreshed(successful, xhr);
    if (!shown.has(xhr)) tell(xhr);
    replyUntil = Date.now() + REPLY_FOR;
    byId("reply")?.scrollIntoView({ block: "nearest" });
  });

  // A page that tells of an error is a page, too.
  function isFit(xhr) {
    const build = buildOf(xhr.responseText);
    if (!build || takesAway(xhr.responseText)) return false;
    // Another build of the server has other pages and scripts: this one would not fit them.
    if (build !== document.body.dataset.build) location.reload();
    return build === document.body.dataset.build;
  }

  // -- forms: what somebody writes is his until the server has taken it -------------------------------------------
  const read = (text) => new DOMParser().parseFromString(text, "text/html");
  const written = () => [...document.querySelectorAll("form[method=post] textarea")].filter((box) => box.value.trim());

  // Whether something that is being written has no place in the page that would be shown instead.
  function takesAway(text) {
    const boxes = written();
    if (!boxes.length) return false;
    const fresh = read(text);
    return buildOf(text) !== document.body.dataset.build || boxes.some((box) => !fresh.getElementById(box.id));
  }

  // What became of a command is told for a while, though the page has gone on since; why it was refused, for as long
  // as what was written is there.
  let replyUntil = Date.now() + REPLY_FOR;
  const isTold = (reply) => Date.now() < replyUntil || (reply.dataset.ok === "false" && written().length > 0);

  // Only a page that says what became of a form answers it.
  function isTaken(xhr, form) {
    const isOk = read(xhr.responseText).getElementById("reply")?.dataset.ok;
    if (isOk === "true") form.reset();
    return isOk !== undefined && !takesAway(xhr.responseText);
  }

  // What the answer says, where it is not shown as a page: the reply in it, or why there is none.
  function tell(xhr) {
    const answer = read(xhr.responseText);
    const reply = answer.getElementById("reply") ?? refusal(xhr.status, answer.querySelector("main p") ?? answer.body);
    byId("reply")?.remove();
    byId("main").prepend(reply);
  }

  function refusal(status, said) {
    const sentence = said.textContent.replace(/\s+/g, " ").trim().slice(0, 300);
    let words = "The server did not answer, so nobody can say whether this arrived.";
    if (status >= 400) words = `The server did not do this (${status}). ${sentence}`;
    if (written().length) words += " What you wrote is still there.";
    const reply = document.createElement("p");
    Object.assign(reply, { id: "reply", className: "reply reply-refused", role: "alert" });
    reply.dataset.ok = "false";
    reply.append(...words.split("`").map((piece, at) => (at % 2 ? code(piece) : piece)));
    return reply;
  }

  function code(text) {
    const element = document.createElement("code");
    element.textContent = text;
    return element;
  }

  // The second click of a double click is none: the page may have changed, and it would hit another button.
  document.addEventListener(
    "click",
    (event) => {
      if (event.detail > 1 && event.target.closest?.("form[method=post] button")) event.preventDefault();
    },
    true,
  );
  setTimeout(() => {
    const address = new URL(location.href);
    if (!address.searchParams.has("reply")) return;
    address.searchParams.delete("reply");
    history.replaceState(null, "", address);
  }, REPLY_FOR);

  // -- the stream -------------------------------------------------------------------------------------------------
  let heardAt = 0; // by the server's clock; 0 before the first word, and while nobody is expected to speak
  let broken = false;
  let stream = null;
  let leftAt = 0; // when nobody saw the page any more; 0 since there is a stream again
  let current = true; // whether the last refresh was answered with what the page shows
  let currentAt = now();

  function refreshed(successful, xhr) {
    const isShown = shown.has(xhr);
    if (successful && isShown && !current) fresh();
    current = Boolean(successful && isShown);
    if (current) currentAt = now();
    // Of a server that is not there, the stream has told already.
    else if (!xhr.status && broken) return;
    // A page of ours that tells of an error is shown instead; anything else leaves what was there.
    else if (!buildOf(xhr.responseText)) stale(currentAt, "The server does not give out this page any more.");
    else if (!isShown && written().length) stale(currentAt, HELD);
  }

  function stale(since, why) {
    const banner = byId("stale");
    document.body.classList.add("is-stale");
    if (banner.textContent === `Stale since ${clock(since)}. ${why}`) return; // what is said is not said again
    const strong = document.createElement("strong");
    strong.textContent = `Stale since ${clock(since)}.`;
    banner.replaceChildren(strong, ` ${why}`);
    banner.classList.add("banner-stale");
    banner.hidden = false;
  }

  function fresh() {
    broken = false;
    document.body.classList.remove("is-stale");
  }

  // Browsers have six connections to a server for all their pages together: one that nobody sees holds none.
  function rest() {
    if (stream && !broken) leftAt ||= now();
    stream?.close();
    stream = null;
    heardAt = 0;
    clearTimeout(timer);
    timer = 0;
  }

  function listen() {
    if (stream || document.hidden) return;
    stream = new EventSource("/api/v2/events/stream");
    stream.addEventListener("open", () => {
      leftAt = 0;
      refresh(); // something may have happened between the page and its stream
      fresh();
    });
    stream.addEventListener("error", () => {
      const refused = stream.readyState === EventSource.CLOSED; // there was an answer, and it was no stream
      if (!broken) stale(heardAt || leftAt || now(), refused ? REFUSED : BROKEN);
      broken = true;
      heardAt = 0;
      if (!refused) return;
      stream = null;
      setTimeout(listen, 2000);
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

  function look() {
    listen();
    refresh();
  }
  document.addEventListener("visibilitychange", () => (document.hidden ? rest() : look()));
  addEventListener("pagehide", rest);
  addEventListener("pageshow", (event) => event.persisted && look());

  document.body.classList.add("is-live");
  learnClock();
  tick();
  listen();
})();
