/* Keys: → ↓ space PageDown: on; ← ↑ PageUp: back; Home, End; n: notes; f: whole screen. The address holds the slide. */
(() => {
  const slides = [...document.querySelectorAll(".slide")];
  const root = document.documentElement;
  const steps = { ArrowRight: 1, ArrowDown: 1, " ": 1, PageDown: 1, ArrowLeft: -1, ArrowUp: -1, PageUp: -1 };
  let at = 0;
  root.classList.add("live");

  /* A slide that holds too much is set smaller until it fits. */
  function fit(slide) {
    const body = slide.querySelector(".body");
    for (let size = 100; size >= 40; size -= 4) {
      slide.style.fontSize = `${size}%`;
      if (body.scrollHeight <= body.clientHeight + 1 && slide.scrollWidth <= slide.clientWidth + 1) return;
    }
  }

  function show(number) {
    slides[at].classList.remove("now");
    at = Math.min(Math.max(number, 0), slides.length - 1);
    slides[at].classList.add("now");
    if (!slides[at].dataset.fitted) {
      fit(slides[at]);
      slides[at].dataset.fitted = "1";
    }
    history.replaceState(null, "", `#${slides[at].id}`);
  }

  function named() {
    return Math.max(0, slides.findIndex((slide) => `#${slide.id}` === location.hash));
  }

  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("summary, a")) return;
    if (event.key in steps) show(at + steps[event.key]);
    else if (event.key === "Home") show(0);
    else if (event.key === "End") show(slides.length - 1);
    else if (event.key === "n") root.classList.toggle("speaking");
    else if (event.key === "f") document.fullscreenElement ? document.exitFullscreen() : root.requestFullscreen();
    else return;
    event.preventDefault();
  });
  document.addEventListener("click", (event) => {
    if (!event.target.closest("a, summary, details, .notes")) show(at + (event.clientX < innerWidth / 4 ? -1 : 1));
  });
  addEventListener("hashchange", () => show(named()));
  addEventListener("resize", () => {
    slides.forEach((slide) => delete slide.dataset.fitted);
    show(at);
  });
  const first = named();
  slides.forEach((_, number) => show(number)); /* all are set once, for print */
  show(first);
})();
