// The page's own part: what Bokeh does not do by itself, which is light and dark, and showing everything again.
(async () => {
  "use strict";
  const data = JSON.parse(document.getElementById("data").textContent);
  const view = await Bokeh.embed.embed_item(data.item);
  const plots = [...(view.roots ?? view)][0].model.children;
  let theme = "light";
  function paint(name) {
    theme = name;
    document.documentElement.dataset.theme = name;
    const { paper, text, palettes } = data.themes[name];
    plots.forEach((plot, place) => {
      plot.tags[0].palette = palettes[place];
      plot.setv({ background_fill_color: paper, border_fill_color: paper, outline_line_color: text });
      plot.title.text_color = text;
      for (const axis of [...plot.below, ...plot.left]) {
        axis.setv({ axis_label_text_color: text, major_label_text_color: text, axis_line_color: text, major_tick_line_color: text, minor_tick_line_color: null });
      }
    });
  }
  const [low, high, top, bottom] = data.whole;
  const fit = () => { plots[0].x_range.setv({ start: low, end: high }); plots[0].y_range.setv({ start: bottom, end: top }); };
  document.getElementById("fit").onclick = fit;
  addEventListener("keydown", (event) => { if (event.key === "0") fit(); });
  window.labFollowTheme(paint, () => theme);
})();
