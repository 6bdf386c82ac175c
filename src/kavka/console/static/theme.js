// Sets the theme before anything is drawn, so that nothing flashes.
"use strict";
(() => {
  let kept = null;
  try { kept = localStorage.getItem("kavka-theme"); } catch { /* a browser that keeps nothing */ }
  if (kept === "dark" || kept === "light") document.documentElement.dataset.theme = kept;
})();
