// Light or dark: that of the page this one is embedded in, else of the system; and the button.
window.labFollowTheme = (paint, current) => {
  "use strict";
  const media = matchMedia("(prefers-color-scheme: dark)");
  let root = null;        // of the page that this one is embedded in, if it may be read
  let told = "";          // what that page said of itself, where it may not be read (opened from disk)
  try { if (parent !== window) root = parent.document.documentElement; } catch { root = null; }
  const known = (name) => ["light", "dark"].includes(name);
  const wanted = () => {
    if (root && known(root.dataset.theme)) return root.dataset.theme;
    return known(told) ? told : media.matches ? "dark" : "light";
  };
  media.addEventListener("change", () => paint(wanted()));
  if (root) new MutationObserver(() => paint(wanted())).observe(root, { attributes: true, attributeFilter: ["data-theme"] });
  addEventListener("message", (event) => {
    if (event.source === parent && parent !== window && known(event.data?.labTheme)) { told = event.data.labTheme; paint(wanted()); }
  });
  if (parent !== window && !root) parent.postMessage({ labTheme: "?" }, "*");
  document.getElementById("theme").onclick = () => paint(current() === "light" ? "dark" : "light");
  paint(wanted());
};
