// The switches of a page, kept for all pages; and checks that a link leads to are unfolded.
(() => {
  const root = document.documentElement;
  const names = { "lab-code": "labCode", "lab-other-gpu": "labOtherGpu" };
  const buttons = [...document.querySelectorAll("button[data-lab-switch]")];
  const tell = () => {
    for (const button of buttons)
      button.setAttribute("aria-pressed", String(root.dataset[names[button.dataset.labSwitch]] === "on"));
  };
  for (const button of buttons) {
    button.addEventListener("click", () => {
      const key = button.dataset.labSwitch;
      const now = root.dataset[names[key]] === "on" ? "off" : "on";
      root.dataset[names[key]] = now;
      try { localStorage.setItem(key, now); } catch { /* not kept where nothing may be */ }
      tell();
    });
  }
  addEventListener("storage", (event) => {
    if (names[event.key]) root.dataset[names[event.key]] = event.newValue === "on" ? "on" : "off";
    tell();
  });
  tell();

  const unfold = () => {
    const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    const folded = target?.closest("details:not([open])");
    if (!folded) return;
    folded.open = true;
    target.scrollIntoView();
  };
  addEventListener("hashchange", unfold);
  unfold();
})();
