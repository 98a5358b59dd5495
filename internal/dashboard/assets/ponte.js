// What pages do in a browser that a form cannot. Everything works without it.
"use strict";

(() => {
  // A form makes one thing however often it is sent; this only keeps people from wondering.
  document.addEventListener("submit", (event) => {
    const form = event.target;
    if (!(form instanceof HTMLFormElement) || event.defaultPrevented) return;
    const asks = (event.submitter && event.submitter.dataset.confirm) || form.dataset.confirm;
    if (asks && !form.dataset.confirmed) {
      event.preventDefault();
      confirmThen(asks, () => {
        form.dataset.confirmed = "yes";
        form.requestSubmit(event.submitter || undefined);
      });
      return;
    }
    delete form.dataset.confirmed;
    if ("once" in form.dataset) {
      if (form.dataset.sent) {
        event.preventDefault();
        return;
      }
      form.dataset.sent = "yes";
      form.setAttribute("aria-busy", "true");
    }
  });

  // A page that the browser kept is fresh again.
  addEventListener("pageshow", () => {
    for (const form of document.querySelectorAll("form[data-sent]")) {
      delete form.dataset.sent;
      form.removeAttribute("aria-busy");
    }
  });

  function confirmThen(text, then) {
    const dialog = document.getElementById("confirm");
    document.getElementById("confirm-text").textContent = text;
    dialog.returnValue = "no";
    dialog.addEventListener("close", () => dialog.returnValue === "yes" && then(), { once: true });
    dialog.showModal();
  }

  document.addEventListener("click", async (event) => {
    const button = event.target instanceof Element && event.target.closest("[data-copy]");
    if (!button) return;
    const source = document.getElementById(button.dataset.copy);
    await navigator.clipboard.writeText("value" in source ? source.value : source.textContent.trim());
    say(button.dataset.done);
  });

  document.addEventListener("focusin", (event) => {
    if (event.target instanceof HTMLInputElement && "select" in event.target.dataset) event.target.select();
  });

  // A choice that needs no button.
  document.addEventListener("change", (event) => {
    if (event.target instanceof Element && event.target.closest("[data-auto]")) event.target.form.requestSubmit();
  });

  // A part of the page was exchanged, and what had the focus with it: the keyboard goes on where the new part begins.
  document.addEventListener("htmx:afterSettle", () => {
    if (document.activeElement === document.body) document.getElementById("main").focus({ preventScroll: true });
  });

  // Says something politely, to eyes and to screen readers.
  function say(text) {
    const place = document.getElementById("flash");
    const note = document.createElement("p");
    note.className = "notice good";
    note.textContent = text;
    place.replaceChildren(note);
  }
  window.ponteSay = say;
})();
