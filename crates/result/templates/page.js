
"use strict";
(() => {
  const $ = (id) => document.getElementById(id);
  const soon = (work) => {
    let timer = 0;
    return () => { clearTimeout(timer); timer = setTimeout(work, 120); };
  };
  for (const part of document.querySelectorAll(".script")) part.hidden = false;

  const theme = $("theme");
  theme.hidden = false;
  theme.addEventListener("click", () => {
    const root = document.documentElement;
    const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = dark ? "light" : "dark";
  });

  // The plan: by what stands in a resource, beside the actions that the style sheet filters by.
  const changes = $("changes");
  if (changes) {
    const all = [...changes.querySelectorAll(".change")];
    const find = $("find-change");
    const filter = () => {
      const wanted = find.value.trim().toLowerCase();
      let shown = 0;
      for (const change of all) {
        change.hidden = wanted !== "" && !change.textContent.toLowerCase().includes(wanted);
        shown += change.hidden ? 0 : 1;
      }
      $("shown-changes").textContent = wanted ? `${shown} of ${all.length} resources match` : "";
    };
    find.addEventListener("input", soon(filter));
    $("open-all").addEventListener("click", () => all.forEach((change) => { change.open = true; }));
    $("close-all").addEventListener("click", () => all.forEach((change) => { change.open = false; }));
    let closed = [];
    addEventListener("beforeprint", () => {
      closed = all.filter((change) => !change.open);
      closed.forEach((change) => { change.open = true; });
    });
    addEventListener("afterprint", () => closed.forEach((change) => { change.open = false; }));
  }

  // The log: looked through in slices, so that the page answers meanwhile.
  const log = $("lines");
  if (!log) return;
  const find = $("find-line");
  const lines = log.querySelectorAll(".chunk > span");
  let hits = [];
  let current = -1;
  let search = 0;
  const tell = (going) => {
    const place = current < 0 ? "" : `${current + 1} of `;
    $("found-lines").textContent = find.value === "" ? "" : `${place}${hits.length}${going ? "…" : ""} found`;
  };
  const show = (index) => {
    if (hits.length === 0) return;
    if (current >= 0) hits[current].classList.remove("current");
    current = (index + hits.length) % hits.length;
    hits[current].classList.add("current");
    hits[current].scrollIntoView({ block: "center", behavior: "instant" });
    tell(false);
  };
  const look = () => {
    const mine = ++search;
    for (const line of hits) line.classList.remove("hit", "current");
    [hits, current] = [[], -1];
    const wanted = find.value.toLowerCase();
    log.classList.toggle("only", $("only-found").checked && wanted !== "");
    let index = 0;
    const slice = () => {
      if (mine !== search || wanted === "") return tell(false);
      const end = Math.min(index + 20000, lines.length);
      for (; index < end; index += 1) {
        if (lines[index].textContent.toLowerCase().includes(wanted)) {
          lines[index].classList.add("hit");
          hits.push(lines[index]);
        }
      }
      if (hits.length > 0 && current < 0) show(0);
      tell(index < lines.length);
      if (index < lines.length) setTimeout(slice);
    };
    slice();
  };
  find.addEventListener("input", soon(look));
  $("only-found").addEventListener("change", look);
  $("wrap").addEventListener("change", (event) => log.classList.toggle("wrap", event.target.checked));
  $("next-line").addEventListener("click", () => show(current + 1));
  $("previous-line").addEventListener("click", () => show(current - 1));
  find.addEventListener("keydown", (event) => {
    if (event.key === "Enter") show(current + (event.shiftKey ? -1 : 1));
  });
  // A click on a line's number makes it the address of the page.
  log.addEventListener("click", (event) => {
    if (event.target.id && event.offsetX < 75) location.hash = event.target.id;
  });
  addEventListener("keydown", (event) => {
    const typing = event.target instanceof HTMLInputElement && event.target.type === "search";
    if (event.key === "/" && !typing && !event.ctrlKey && !event.metaKey) {
      event.preventDefault();
      find.focus();
    }
  });
})();
