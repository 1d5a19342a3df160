// SPDX-License-Identifier: Apache-2.0
// The only script of the pages: Airflow's light and dark, a run that is kept current, and the buttons.
"use strict";

// -- light and dark: Airflow keeps the choice as a class of its document and under "theme" in the browser's storage --------

const airflow = (() => {
  try {
    return window.parent !== window ? window.parent.document.documentElement : null;
  } catch {
    return null; // another site's frame
  }
})();

function theme() {
  for (const name of ["dark", "light"]) {
    if (airflow !== null && airflow.classList.contains(name)) return name;
  }
  const kept = window.localStorage.getItem("theme");
  return kept === "dark" || kept === "light" ? kept : null;
}

function follow() {
  const now = theme();
  if (now === null) delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = now;
}

follow();
window.addEventListener("storage", follow);
if (airflow !== null) new MutationObserver(follow).observe(airflow, { attributeFilter: ["class"] });

// -- a run under way -------------------------------------------------------------------------------------------------------

const EVERY_MS = 2000;

async function keepCurrent(part) {
  const said = document.getElementById("not-current");
  let shown = null;
  for (;;) {
    await new Promise((resolve) => setTimeout(resolve, EVERY_MS));
    try {
      const answer = await fetch(part.dataset.poll, { headers: { Accept: "application/json" }, redirect: "error" });
      if (!answer.ok) throw new Error(`the server answers ${answer.status}`);
      const run = await answer.json();
      // The server made it of a template that escapes all that others wrote, as it made this page.
      // What a person has opened to press a button stays as it is until the button is pressed or closed again.
      if (run.html !== shown && part.querySelector("details[open]") === null) part.innerHTML = shown = run.html;
      said.hidden = true;
      if (!run.under_way) {
        window.location.reload();
        return;
      }
    } catch (error) {
      said.textContent = `Not kept current at the moment: ${error.message}.`;
      said.hidden = false;
    }
  }
}

// -- buttons: they ask Airflow's own interface, which asks for the right once more --------------------------------------------

async function send(address, method, body) {
  const answer = await fetch(address, {
    method,
    headers: { "Content-Type": "application/json" },
    body: method === "DELETE" ? undefined : JSON.stringify(body),
  });
  return [answer, await answer.text()];
}

async function ask(form) {
  const button = form.querySelector("button");
  const said = form.querySelector(".said");
  button.disabled = true;
  said.textContent = "";
  const body = JSON.parse(form.dataset.body);
  for (const field of form.querySelectorAll("[name]")) {
    const part = field.dataset.into ? body[field.dataset.into] : body;
    part[field.name] = field.type === "number" ? field.valueAsNumber : (field.dataset.before ?? "") + field.value;
  }
  try {
    const [answer, text] = await send(form.dataset.ask, form.dataset.method, body);
    // A variable that was set meanwhile stops already; the page shows what it says.
    const isThere = answer.status === 409 && body.key !== undefined;
    if (!answer.ok && !isThere) throw new Error(`Airflow answers ${answer.status}: ${text.slice(0, 300)}`);
    if (form.dataset.then) window.location.assign(form.dataset.then + encodeURIComponent(JSON.parse(text).dag_run_id));
    else window.location.reload();
  } catch (error) {
    said.textContent = error.message;
    button.disabled = false;
  }
}

document.addEventListener("submit", (event) => {
  if (event.target.dataset.ask === undefined) return;
  event.preventDefault();
  ask(event.target);
});

document.addEventListener("DOMContentLoaded", () => {
  for (const part of document.querySelectorAll("[data-poll]")) keepCurrent(part);
  for (const choice of document.querySelectorAll(".filters select")) {
    choice.addEventListener("change", () => choice.form.requestSubmit());
  }
});
