// Shows what happens to the account while a page is open: parts that are marked with data-live are fetched again, and what
// happened is said politely. A page that nobody looks at has no stream. Without this, loading the page again shows the same.
"use strict";

(() => {
  const stream = document.body.dataset.live;
  if (!stream) return;

  const againAfter = 30_000; // after a refusal: too many pages, or the server is leaving
  const refreshEvery = 1_000;
  const toastTime = 10_000;
  const seenMax = 100;

  let source = null;
  let since = document.body.dataset.liveSince; // the event after which there is news
  let waiting = 0; // a timer for opening the stream again
  let refreshing = false;
  let stale = []; // what changed while a refresh was under way
  let toastTimer = 0;

  // What was said on this page or the one before is not said again.
  const memory = "ponte-live";
  const seen = new Set(JSON.parse(sessionStorage.getItem(memory) || "[]"));

  function remember(id) {
    if (seen.has(id)) return false;
    seen.add(id);
    sessionStorage.setItem(memory, JSON.stringify([...seen].slice(-seenMax)));
    return true;
  }

  function open() {
    clearTimeout(waiting);
    if (source || document.hidden) return;
    source = new EventSource(`${stream}?since=${encodeURIComponent(since)}`);
    source.addEventListener("news", (event) => {
      since = event.lastEventId;
      if (!remember(event.lastEventId)) return;
      const news = JSON.parse(event.data);
      refresh(news);
      if (news.say) say(news.say);
    });
    source.addEventListener("many", (event) => {
      since = event.lastEventId || since;
      refresh({});
    });
    source.addEventListener("end", () => location.reload()); // signed out, or no longer in the account
    source.addEventListener("error", () => {
      if (source.readyState !== EventSource.CLOSED) return; // it tries again by itself
      close();
      waiting = setTimeout(open, againAfter);
    });
  }

  function close() {
    if (source) source.close();
    source = null;
  }

  document.addEventListener("visibilitychange", () => (document.hidden ? close() : open()));
  addEventListener("pagehide", close);
  addEventListener("pageshow", open);

  // A part names the kinds or identifiers that it shows; one that names none shows all.
  function concerns(part, news) {
    const names = part.dataset.live.split(" ").filter(Boolean);
    return !news.type || names.length === 0 || names.some((name) => name === news.ref || news.type.startsWith(`${name}.`));
  }

  async function refresh(news) {
    stale.push(news);
    if (refreshing) return;
    refreshing = true;
    while (stale.length > 0) {
      const all = stale;
      stale = [];
      const parts = [...document.querySelectorAll("main [data-live]")].filter((part) => all.some((one) => concerns(part, one)));
      if (parts.length === 0) continue;
      try {
        await replace(parts);
      } catch {
        // The next news, or the next page, shows it.
      }
      await new Promise((done) => setTimeout(done, refreshEvery));
    }
    refreshing = false;
  }

  async function replace(parts) {
    const answer = await fetch(location.href, { headers: { Accept: "text/html", "Ponte-Live": "refresh" }, redirect: "error" });
    if (!answer.ok) return;
    const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
    for (const part of parts) {
      const next = fresh.getElementById(part.id);
      if (!next) continue;
      const open = [...part.querySelectorAll("details")].map((details) => details.open);
      [...next.querySelectorAll("details")].forEach((details, i) => (details.open = details.open || Boolean(open[i])));
      const focus = part.contains(document.activeElement) ? document.activeElement : null;
      part.replaceWith(document.adoptNode(next));
      if (window.htmx) window.htmx.process(next);
      if (!focus) continue;
      const again = focus.id ? document.getElementById(focus.id) : [...next.querySelectorAll("a")].find((a) => a.href === focus.href);
      if (again) again.focus({ preventScroll: true });
    }
  }

  function say(text) {
    const place = document.getElementById("toast");
    const note = document.createElement("p");
    note.className = "notice good";
    note.textContent = text;
    place.replaceChildren(note);
    clearTimeout(toastTimer);
    toastTimer = setTimeout(() => place.replaceChildren(), toastTime);
  }

  open();
})();
