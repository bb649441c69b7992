// The page's own part: which boxes Bokeh draws, zoom, search, keys, tooltips, light and dark.
(async () => {
  "use strict";
  const data = JSON.parse(document.getElementById("data").textContent);
  const $ = (id) => document.getElementById(id);
  const { labels, kinds, label, depth, left, weight, own, count, parent: above, total, unit } = data;
  const ROW_PX = 18, CHAR_PX = 6.7, LEAST_PX = 0.7, LABEL_PX = 30, FAINT = 0.25, FOUND = data.themes.light.fills.length - 1;

  const amount = (value) => unit === "ns"
    ? `${(value / 1e6).toLocaleString("en-US", { maximumSignificantDigits: 3 })} ms`
    : `${value.toLocaleString("en-US", { maximumFractionDigits: 0 })} ${unit}`;
  const percent = (share) => (share > 0 && share < 0.001 ? "<0.1%" : `${(100 * share).toFixed(1)}%`);

  let hovered = () => {}, tapped = () => {};
  window.labHover = (indices) => hovered(indices);
  window.labTap = (x, y) => tapped(x, y);
  const view = await Bokeh.embed.embed_item(data.item);
  const plotView = [...(view.roots ?? view)][0];
  const plot = plotView.model;
  const [shown, texts, focusBox, fills, inks] = plot.tags;

  // ---- the tree: boxes are in rows, and within a row from left to right
  const children = label.map(() => []);
  above.forEach((p, i) => { if (p >= 0) children[p].push(i); });
  const roots = above.flatMap((p, i) => (p < 0 ? [i] : []));
  let zoomed = -1, focused = -1, wanted = null;

  const bounds = () => (zoomed < 0 ? [0, total] : [left[zoomed], left[zoomed] + weight[zoomed]]);
  const plotWidth = () => plotView.frame?.bbox?.width || plot.inner_width || 800;
  const isWanted = (i) => wanted !== null && wanted[label[i]] === 1;

  let pending = false;
  function redraw() {
    if (pending) return;
    pending = true;
    requestAnimationFrame(() => {
      pending = false;
      const [low, high] = bounds(), pixel = (high - low) / plotWidth();
      const out = { left: [], right: [], top: [], bottom: [], kind: [], alpha: [], index: [] };
      const named = { x: [], y: [], text: [], kind: [] };
      for (let i = 0; i < label.length; i++) {
        const begin = Math.max(low, left[i]), end = Math.min(high, left[i] + weight[i]);
        if (end - begin < LEAST_PX * pixel) continue;
        const kind = isWanted(i) ? FOUND : kinds[label[i]];
        out.left.push(begin); out.right.push(end); out.top.push(depth[i]); out.bottom.push(depth[i] + 1);
        out.kind.push(kind); out.index.push(i);
        out.alpha.push((wanted !== null && !isWanted(i)) || (zoomed >= 0 && depth[i] < depth[zoomed]) ? FAINT + 0.2 : 1);
        const room = (end - begin) / pixel;
        if (room >= LABEL_PX && out.alpha[out.alpha.length - 1] === 1) {
          const whole = labels[label[i]], fits = Math.floor((room - 6) / CHAR_PX);
          const text = whole.length <= fits ? whole : whole.split(" (")[0] || whole;
          named.x.push(begin); named.y.push(depth[i] + 0.52); named.kind.push(kind);
          named.text.push(text.length <= fits ? text : text.slice(0, Math.max(1, fits - 1)) + "…");
        } else if (room >= LABEL_PX) {
          const whole = labels[label[i]].split(" (")[0], fits = Math.floor((room - 6) / CHAR_PX);
          named.x.push(begin); named.y.push(depth[i] + 0.52); named.kind.push(-1);
          named.text.push(whole.length <= fits ? whole : whole.slice(0, Math.max(1, fits - 1)) + "…");
        }
      }
      shown.data = out;
      texts.data = named;
      plot.x_range.setv({ start: low, end: high });
      mark();
      const whole = zoomed < 0 ? "the whole profile" : labels[label[zoomed]];
      $("view").textContent = `${whole}: ${amount(high - low)}${zoomed < 0 ? "" : `, ${percent((high - low) / total)}`}`;
      tellFound();
    });
  }
  function mark() {
    focusBox.data = focused < 0 ? { left: [], right: [], top: [], bottom: [] }
      : { left: [left[focused]], right: [left[focused] + weight[focused]], top: [depth[focused]], bottom: [depth[focused] + 1] };
  }

  // ---- zoom
  function zoom(i) { zoomed = i; redraw(); }
  function at(x, y) {
    const row = Math.floor(y);
    return label.findIndex((_, i) => depth[i] === row && x >= left[i] && x < left[i] + weight[i]);
  }
  tapped = (x, y) => { const i = at(x, y); if (i >= 0) { zoom(i); focus(i); } };
  $("up").onclick = () => zoom(zoomed < 0 ? -1 : above[zoomed]);
  $("fit").onclick = () => zoom(-1);

  // ---- search: the share of the samples that pass through a match
  function tellFound() {
    if (wanted === null) { $("found").textContent = ""; return; }
    const [low, high] = bounds();
    let hit = 0, n = 0;
    const inside = new Uint8Array(label.length);   // below a match
    for (let i = 0; i < label.length; i++) {
      if (left[i] >= high || left[i] + weight[i] <= low) continue;
      inside[i] = above[i] >= 0 ? inside[above[i]] : 0;
      if (!isWanted(i)) continue;
      n++;
      if (!inside[i]) hit += Math.min(high, left[i] + weight[i]) - Math.max(low, left[i]);
      inside[i] = 1;
    }
    $("found").textContent = n ? `${percent(hit / (high - low))} in ${n.toLocaleString("en-US")} boxes` : "not found";
  }
  $("search").oninput = (event) => {
    const query = event.target.value.trim().toLowerCase();
    wanted = query ? labels.map((text) => (text.toLowerCase().includes(query) ? 1 : 0)) : null;
    redraw();
  };

  // ---- what a box is, as text
  function lines(i) {
    const share = percent(weight[i] / total);
    const rows = [labels[label[i]], `${amount(weight[i])}, ${share} of all`];
    if (unit === "ns") rows[1] += `, in ${count[i].toLocaleString("en-US")} samples`;
    rows.push(own[i] > 0 ? `itself: ${amount(own[i])}, ${percent(own[i] / total)}` : "itself: nothing, all in what it called");
    return rows;
  }
  const tip = $("tip");
  let mouse = [0, 0];
  $("plot").addEventListener("mousemove", (event) => { mouse = [event.clientX, event.clientY]; });
  $("plot").addEventListener("mouseleave", () => { tip.style.display = "none"; });
  hovered = (indices) => {
    if (!indices.length) { tip.style.display = "none"; return; }
    const [name, ...more] = lines(shown.data.index[indices[indices.length - 1]]);
    const head = document.createElement("b"), rest = document.createElement("div");
    head.textContent = name;
    rest.textContent = more.join("\n");
    tip.replaceChildren(head, rest);
    tip.style.display = "block";
    const box = tip.getBoundingClientRect();
    tip.style.left = `${Math.max(4, Math.min(mouse[0] + 14, document.documentElement.clientWidth - box.width - 8))}px`;
    tip.style.top = `${mouse[1] + 18 + box.height > innerHeight ? mouse[1] - box.height - 12 : mouse[1] + 18}px`;
  };

  // ---- keys
  function focus(i) {
    focused = i;
    mark();
    $("told").textContent = i < 0 ? "" : lines(i).join("; ");
    if (i >= 0) {
      const [low, high] = bounds();
      if (left[i] >= high || left[i] + weight[i] <= low) zoom(above[i]);
    }
  }
  function beside(by) {
    const family = above[focused] < 0 ? roots : children[above[focused]];
    const next = family[family.indexOf(focused) + by];
    if (next !== undefined) focus(next);
  }
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.target.id === "search") { if (event.key === "Escape") $("plot").focus(); return; }
    if (event.target.tagName === "BUTTON" && (event.key === "Enter" || event.key === " ")) return;
    const start = () => focus(zoomed < 0 ? roots[0] : zoomed);
    const keys = {
      ArrowDown: () => (focused < 0 ? start() : children[focused].length && focus(children[focused][0])),
      ArrowUp: () => (focused < 0 ? start() : above[focused] >= 0 && focus(above[focused])),
      ArrowRight: () => (focused < 0 ? start() : beside(1)), ArrowLeft: () => (focused < 0 ? start() : beside(-1)),
      Enter: () => focused >= 0 && zoom(focused), Backspace: () => $("up").click(), 0: () => zoom(-1), Escape: () => zoom(-1),
      "/": () => $("search").focus(),
    };
    if (keys[event.key]) { keys[event.key](); event.preventDefault(); }
  });

  // ---- size, light and dark
  function resize() { plot.height = data.rows * ROW_PX + 6; redraw(); }
  let theme = "light";
  function paint(name) {
    theme = name;
    document.documentElement.dataset.theme = name;
    const colors = data.themes[name];
    fills.palette = colors.fills;
    inks.setv({ palette: colors.inks, low_color: colors.text });
    plot.setv({ background_fill_color: null, border_fill_color: null, outline_line_color: null });
    plot.renderers[0].glyph.line_color = { value: colors.paper };
    plot.renderers[1].glyph.line_color = { value: colors.text };
    $("legend").replaceChildren(...data.legend.map(({ kind, name: text }) => {
      const item = document.createElement("li"), swatch = document.createElement("i");
      swatch.style.background = colors.fills[kind];
      item.append(swatch, text);
      return item;
    }));
    redraw();
  }
  plot.properties.inner_width.change.connect(redraw);
  addEventListener("resize", redraw);
  window.labFollowTheme(paint, () => theme);
  resize();
  window.labFlame = { zoom, focus, at, shown, texts, plot, state: () => ({ zoomed, focused, theme }) };
  document.documentElement.dataset.ready = "true";
})();
