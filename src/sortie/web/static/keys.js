// A page under the keyboard alone: from row to row, to another page, to the field that finds an issue.
"use strict";
(() => {
  const byId = (id) => document.getElementById(id);
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
})();
