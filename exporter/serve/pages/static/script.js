// Adds to pages that are complete without it: buttons that copy a command, and a verdict and open chains that stay up to date.

"use strict";

const REFRESH_MILLISECONDS = 10000; // a window of the history

function addCopyButtons(root) {
  for (const code of root.querySelectorAll("code[data-copy]")) {
    const button = document.createElement("button");
    button.type = "button";
    button.className = "copy";
    button.textContent = "Copy";
    button.setAttribute("aria-label", `Copy ${code.textContent}`);
    button.addEventListener("click", () => copy(code, button));
    code.after(button);
  }
}

async function copy(code, button) {
  try {
    await navigator.clipboard.writeText(code.textContent);
    button.textContent = "Copied";
  } catch {
    getSelection().selectAllChildren(code); // without a clipboard, such as over plain HTTP
    button.textContent = "Selected";
  }
  setTimeout(() => { button.textContent = "Copy"; }, 2000);
}

class LiveUpdates {
  constructor() {
    this.isPaused = false;
    this.status = document.createElement("p");
    this.status.className = "live";
    this.text = document.createElement("span");
    this.text.setAttribute("role", "status");
    this.text.textContent = "Updates every 10 s";
    this.button = document.createElement("button");
    this.button.type = "button";
    this.button.textContent = "Pause";
    this.button.addEventListener("click", () => this.toggle());
    this.status.append(this.text, this.button);
    document.getElementById("verdict").after(this.status);
    setInterval(() => this.refresh(), REFRESH_MILLISECONDS);
  }

  toggle() {
    this.isPaused = !this.isPaused;
    this.button.textContent = this.isPaused ? "Resume" : "Pause";
    this.text.textContent = this.isPaused ? "Updates are paused" : "Updates every 10 s";
  }

  async refresh() {
    // What has the focus or is selected stays where it is.
    if (this.isPaused || document.hidden || isInUse()) return;
    let found;
    try {
      const response = await fetch(location.href, { headers: { Accept: "text/html" } });
      if (response.status === 401) {
        this.text.textContent = "The session has ended: load the page again to sign in";
        return;
      }
      if (!response.ok) throw new Error(String(response.status));
      found = new DOMParser().parseFromString(await response.text(), "text/html");
    } catch {
      this.text.textContent = "The server does not answer: this page may be out of date";
      return;
    }
    if (isInUse()) return;
    for (const section of document.querySelectorAll("main > section[id]")) {
      const later = found.getElementById(section.id);
      if (!later || later.isEqualNode(section)) continue;
      const opened = [...section.querySelectorAll("details")].map((one) => one.open);
      section.replaceWith(later);
      later.querySelectorAll("details").forEach((one, number) => { one.open = opened[number] === true; });
      addCopyButtons(later);
    }
    this.text.textContent = `Updated at ${new Date().toLocaleTimeString()}`;
  }
}

function isInUse() {
  const focused = document.activeElement;
  return (focused && focused.closest("main > section") !== null) || !getSelection().isCollapsed;
}

addCopyButtons(document);
const live = document.body.hasAttribute("data-live") ? new LiveUpdates() : null;
