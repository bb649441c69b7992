// What a loaded page says about itself: a list of complaints, empty when all is well.
(() => {
  const found = [];
  const root = document.documentElement;
  const inScroller = (element) => {
    for (let parent = element; parent && parent !== document.body; parent = parent.parentElement) {
      if (getComputedStyle(parent).overflowX !== "visible") return true;
    }
    return false;
  };
  const describe = (element) => {
    const text = element.textContent.trim().replace(/\s+/g, " ").slice(0, 40);
    return `${element.tagName.toLowerCase()} “${text}”`;
  };

  if (root.scrollWidth > root.clientWidth) {
    const beyond = (element) => element.getBoundingClientRect().right > root.clientWidth + 1;
    const wide = [...document.querySelectorAll("main *")].filter((e) => beyond(e) && !inScroller(e));
    found.push(`scrolls sideways to ${root.scrollWidth}: ${wide.slice(0, 3).map(describe).join(", ")}`);
  }

  for (const image of document.images) {
    const source = image.getAttribute("src");
    const alt = image.getAttribute("alt");
    const shown = getComputedStyle(image).display !== "none";
    if (shown && image.complete && image.naturalWidth === 0) found.push(`broken image ${source}`);
    if (alt === null || /^_images\/|\.(svg|png)$/.test(alt)) found.push(`image without a description ${source}`);
  }

  for (const icon of document.querySelectorAll(".fa-solid, .fas, .fa-regular, .fa-brands")) {
    if (getComputedStyle(icon).getPropertyValue("--lab-icon") === "") found.push(`icon without a drawing ${icon.className}`);
  }

  const ids = new Set(), doubled = new Set();
  for (const { id } of document.querySelectorAll("[id]")) (ids.has(id) ? doubled : ids).add(id);
  for (const id of doubled) found.push(`doubled id ${id}`);

  for (const link of document.querySelectorAll('main a[href^="#"]')) {
    const id = decodeURIComponent(link.getAttribute("href").slice(1));
    if (id && !document.getElementById(id)) found.push(`link to a place that is not there: #${id}`);
  }

  if (!document.title.trim()) found.push("page without a title");
  const headings = [...document.querySelectorAll("main h1")].filter((e) => e.offsetParent !== null);
  if (headings.length !== 1) found.push(`page with ${headings.length} main headings`);
  return found;
})()
