// Interactive pages: a frame takes the place of its still figure once a reader asks for it, follows light and dark,
// and searches for what the text names (`data-find`).
(function () {
  "use strict";

  const root = document.documentElement;
  const frames = () => document.querySelectorAll("iframe.lab-interactive-frame");
  const tell = (target) => target.postMessage({ labTheme: root.dataset.theme ?? "" }, "*");
  addEventListener("message", (event) => {
    if (event.data?.labTheme === "?") tell(event.source);
  });
  new MutationObserver(() => frames().forEach((frame) => tell(frame.contentWindow)))
    .observe(root, { attributeFilter: ["data-theme"] });

  function open(place) {
    let frame = place.querySelector("iframe");
    if (frame) return frame;
    frame = document.createElement("iframe");
    frame.className = "lab-interactive-frame";
    frame.src = place.dataset.src;
    frame.title = place.dataset.title;
    frame.height = place.dataset.height;
    place.prepend(frame);
    place.classList.add("open");
    place.querySelector("button").remove();
    place.previousElementSibling?.classList.add("lab-interactive-replaced");
    return frame;
  }

  document.querySelectorAll(".lab-interactive").forEach((place) => {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = "Zoom and search it here";
    button.addEventListener("click", () => open(place).focus());
    place.querySelector("p").prepend(button, " ");
  });

  // What the text names: over it, the frame above or below shows that alone; a click opens the frame first.
  const find = (frame, text) => frame.contentWindow.postMessage({ labFind: text }, "*");
  document.querySelectorAll("[data-find]").forEach((name) => {
    const places = [...document.querySelectorAll(".lab-interactive")];
    const before = places.filter((one) => one.compareDocumentPosition(name) & Node.DOCUMENT_POSITION_FOLLOWING);
    const named = places.find((one) => one.dataset.name === name.dataset.frame);
    const place = named ?? before.at(-1) ?? places[0];
    if (!place) return;
    name.tabIndex = 0;
    name.role = "button";
    const seen = (text) => {
      const frame = place.querySelector("iframe");
      if (frame) find(frame, text);
    };
    const ask = () => {
      const waiting = !place.querySelector("iframe"), frame = open(place);
      frame.scrollIntoView({ block: "nearest" });
      if (waiting) frame.addEventListener("load", () => setTimeout(find, 400, frame, name.dataset.find));
      else find(frame, name.dataset.find);
    };
    name.addEventListener("mouseenter", () => seen(name.dataset.find));
    name.addEventListener("mouseleave", () => seen(""));
    name.addEventListener("focus", () => seen(name.dataset.find));
    name.addEventListener("blur", () => seen(""));
    name.addEventListener("click", ask);
    name.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" && event.key !== " ") return;
      event.preventDefault();
      ask();
    });
  });
})();
