// Pictures wait until they are scrolled to. When a page is there and nothing else is to do, those that it shows are
// loaded anyway, so that they are there for printing and saving; the copies for the other theme stay away.
addEventListener("load", () => {
  const load = () => {
    for (const picture of document.querySelectorAll("img[loading=lazy]"))
      if (getComputedStyle(picture).display !== "none") picture.loading = "eager";
  };
  if (window.requestIdleCallback) requestIdleCallback(load);
  else setTimeout(load, 1000);
});
