"use strict";
(() => {
  const $ = (id) => document.getElementById(id);
  const soon = (work, time) => {
    let timer = 0;
    return () => { clearTimeout(timer); timer = setTimeout(work, time); };
  };
  // The parts that are refreshed, as the server has made them last.
  const parts = ["live", "live-plan", "live-list", "live-timings", "live-left-out"];
  const known = new Map(parts.map((id) => [id, $(id)?.innerHTML]));
  for (const part of document.querySelectorAll(".script")) part.hidden = false;

  // Times stay relative to now.
  const units = [[172800, 86400, "days"], [3600, 3600, "h"], [60, 60, "min"], [1, 1, "s"]];
  const tell = () => {
    for (const time of document.querySelectorAll("time")) {
      const seconds = Math.round((Date.now() - Date.parse(time.dateTime)) / 1000);
      const amount = Math.abs(seconds);
      const unit = units.find(([least]) => amount >= least);
      const text = unit ? `${Math.floor(amount / unit[1])} ${unit[2]}` : "";
      time.textContent = !unit ? "now" : seconds > 0 ? `${text} ago` : `in ${text}`;
    }
  };
  setInterval(tell, 10000);

  // Streams of events. A lost connection is shown: the browser connects again by itself, and continues after
  // the last message. A hidden page has no stream, because a browser keeps only six connections to a server.
  const lost = new Set();
  const streams = new Set();
  const tellLost = () => {
    $("connection").textContent = lost.size === 0 ? "" : "The connection to the server is lost. The page continues when the server answers.";
  };
  const follow = (address, listeners) => {
    const url = new URL(address, location.href);
    const stream = {
      connect() {
        const source = new EventSource(url);
        stream.close = () => { source.close(); lost.delete(stream); tellLost(); };
        source.addEventListener("open", () => { lost.delete(stream); tellLost(); });
        source.addEventListener("error", () => {
          lost.add(stream);
          tellLost();
          // The browser has given up, because something answered that is not a stream.
          if (source.readyState === EventSource.CLOSED) setTimeout(reconnect, 5000, stream);
        });
        for (const [name, listen] of Object.entries(listeners)) {
          source.addEventListener(name, (event) => {
            // That of a line can begin with the number of its attempt.
            const id = event.lastEventId.split("-").pop();
            if (id) url.searchParams.set("after", id);
            listen(event);
          });
        }
      },
      close() {},
      end() { stream.close(); streams.delete(stream); },
    };
    streams.add(stream);
    if (!document.hidden) stream.connect();
    return stream;
  };
  const reconnect = (stream) => {
    stream.close();
    if (document.hidden || !streams.has(stream)) return;
    stream.connect();
    again();
  };
  document.addEventListener("visibilitychange", () => streams.forEach(reconnect));
  addEventListener("pageshow", (event) => { if (event.persisted) location.reload(); });

  // What an event changes is asked for again; what did not change stays, and the focus too. A page that says
  // why a form was refused has the address of the form, which is not one of a page.
  const address = document.body.dataset.page || location.href;
  if (document.body.dataset.page) history.replaceState(null, "", address);
  const same = (element) => {
    const form = element.closest("form");
    return `${element.tagName} ${element.id} ${element.getAttribute("href")} ${form?.getAttribute("action")} ${element.textContent}`;
  };
  const refresh = async () => {
    const answer = await fetch(address, { headers: { accept: "text/html", "butler-refresh": "true" }, redirect: "manual" });
    // The session has ended, and the page to sign in says so.
    if (answer.type === "opaqueredirect") location.reload();
    if (!answer.ok) return;
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    const [log, next] = [$("lines"), page.getElementById("lines")];
    // The first attempt has started, or another one.
    if (log && next && log.dataset.attempt !== next.dataset.attempt) location.reload();
    for (const id of parts) {
      const [old, fresh] = [$(id), page.getElementById(id)];
      if (!old || !fresh || known.get(id) === fresh.innerHTML) continue;
      known.set(id, fresh.innerHTML);
      const focused = old.contains(document.activeElement) ? same(document.activeElement) : null;
      const state = old.querySelector("h1 .state")?.textContent;
      // What a person types stays.
      for (const field of fresh.querySelectorAll("input[id]")) field.value = old.querySelector(`#${field.id}`)?.value ?? field.value;
      old.replaceWith(fresh);
      if (focused) [...fresh.querySelectorAll("a, button, summary, input")].find((it) => same(it) === focused)?.focus();
      const now = fresh.querySelector("h1 .state")?.textContent;
      if (now && now !== state) $("announcement").textContent = now;
      for (const part of fresh.querySelectorAll(".script")) part.hidden = false;
    }
    plan();
  };
  // One refresh at a time, and one more when it is quiet: an event is told before all pages show its effect.
  let timer = 0;
  let wanted = 0;
  const again = () => {
    wanted = 2;
    if (timer === 0) timer = setTimeout(work, 300);
  };
  const work = async () => {
    wanted -= 1;
    try {
      if (!document.hidden) await refresh();
    } catch {
      // The server is away, which its streams tell.
    }
    timer = wanted > 0 ? setTimeout(work, 1500) : 0;
  };
  if (document.body.dataset.events) {
    follow(document.body.dataset.events, { message: () => again() });
    again();
  }

  // The plan: filtered by what is in a resource.
  const plan = () => {
    const [changes, find] = [$("changes"), $("find-change")];
    if (!changes || find.dataset.ready) return;
    find.dataset.ready = "yes";
    const all = [...changes.querySelectorAll(".change")];
    const filter = () => {
      const wanted = find.value.trim().toLowerCase();
      let shown = 0;
      for (const change of all) {
        change.hidden = wanted !== "" && !change.textContent.toLowerCase().includes(wanted);
        shown += change.hidden ? 0 : 1;
      }
      $("shown-changes").textContent = wanted ? `${shown} of ${all.length} resources match` : "";
    };
    find.addEventListener("input", soon(filter, 120));
    $("open-all").addEventListener("click", () => all.forEach((change) => { change.open = true; }));
    $("close-all").addEventListener("click", () => all.forEach((change) => { change.open = false; }));
  };
  plan();

  // The log: lines are appended, and the end is followed unless the reader has left it.
  const log = $("lines");
  if (!log) return;
  const tail = $("tail");
  let last = Number(log.dataset.last);
  let pending = [];
  const atEnd = () => log.scrollHeight - log.scrollTop - log.clientHeight < 40;
  const names = ["Prepare", "Init", "Plan", "Apply"];
  const partOf = (number) => {
    const part = document.createElement("details");
    part.className = "part";
    part.dataset.part = number;
    part.open = true;
    const summary = document.createElement("summary");
    summary.textContent = names[number];
    part.append(summary);
    log.append(part);
    return part;
  };
  const append = () => {
    const lines = pending;
    pending = [];
    const follows = tail.checked && atEnd();
    $("no-lines")?.remove();
    for (const line of lines) {
      let part = log.lastElementChild;
      const number = line.part ?? (part ? -1 : 0);
      if (number >= 0 && (!part || Number(part.dataset.part) < number)) part = partOf(number);
      let chunk = part.lastElementChild;
      if (!chunk.classList.contains("chunk") || chunk.childElementCount >= 100) {
        chunk = document.createElement("div");
        chunk.className = "chunk";
        part.append(chunk);
      }
      const span = document.createElement("span");
      span.id = line.sequence;
      if (line.style) span.className = line.style;
      span.textContent = line.text;
      chunk.append(span);
      if (location.hash === `#${span.id}`) {
        tail.checked = false;
        span.scrollIntoView({ block: "center" });
      }
    }
    if (follows && tail.checked) log.scrollTop = log.scrollHeight;
  };
  if (log.dataset.follow) {
    $("more-lines")?.remove();
    const stream = follow(log.dataset.follow, {
      message(event) {
        const line = JSON.parse(event.data);
        if (line.sequence <= last) return;
        last = line.sequence;
        if (pending.push(line) === 1) requestAnimationFrame(append);
      },
      end() { stream.end(); again(); },
    });
    if (!location.hash) log.scrollTop = log.scrollHeight;
  }
  const find = $("find-line");
  let hits = [];
  let current = -1;
  const show = (index) => {
    if (hits.length === 0) return;
    hits[current]?.classList.remove("current");
    current = (index + hits.length) % hits.length;
    const hit = hits[current];
    hit.closest("details").open = true;
    hit.classList.add("current");
    hit.scrollIntoView({ block: "center", behavior: "instant" });
    $("found-lines").textContent = `${current + 1} of ${hits.length} found`;
  };
  const look = () => {
    for (const line of hits) line.classList.remove("hit", "current");
    const wanted = find.value.toLowerCase();
    const lines = wanted === "" ? [] : [...log.querySelectorAll(".chunk > span")];
    hits = lines.filter((line) => line.textContent.toLowerCase().includes(wanted));
    for (const line of hits) line.classList.add("hit");
    current = -1;
    if (wanted !== "") tail.checked = false;
    $("found-lines").textContent = wanted === "" ? "" : "0 found";
    show(0);
  };
  find.addEventListener("input", soon(look, 120));
  find.addEventListener("keydown", (event) => {
    if (event.key !== "Enter") return;
    show(current + (event.shiftKey ? -1 : 1));
    if (hits[current]) point(hits[current]);
  });
  $("next-line").addEventListener("click", () => show(current + 1));
  $("previous-line").addEventListener("click", () => show(current - 1));
  $("wrap").addEventListener("change", (event) => log.classList.toggle("wrap", event.target.checked));
  tail.addEventListener("change", () => { if (tail.checked) log.scrollTop = log.scrollHeight; });
  // A click on a line's number, or Enter on a line that was found, makes it the address of the page. The
  // address names the attempt, because the next one has other lines.
  const point = (line) => {
    const url = new URL(address, location.href);
    url.searchParams.set("attempt", log.dataset.attempt);
    history.replaceState(null, "", url);
    location.hash = line.id;
  };
  log.addEventListener("click", (event) => {
    if (event.target.id && event.offsetX < 75) point(event.target);
  });
})();
