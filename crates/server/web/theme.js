// Sets the theme before the first paint. A classic script, so that the page never flashes.
(() => {
  let theme = null;
  try { theme = localStorage.getItem('rappel.theme'); } catch { /* storage is off: follow the system */ }
  if (theme === 'light' || theme === 'dark') document.documentElement.dataset.theme = theme;
})();
