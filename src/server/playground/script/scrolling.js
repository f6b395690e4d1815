// Where the page is scrolled to while an answer grows.

const UPWARD = ['ArrowUp', 'PageUp', 'Home'];

// The page follows the end of the conversation until its reader moves up, by however little, and
// again once they are back at the end.
let follows = true;
// Scrolls no further than to the start of an open question, which is read from there.
function toEnd() {
  if (!follows) return;
  const end = document.body.scrollHeight - innerHeight, start = Question.open?.takeScrollTop() ?? end;
  scrollTo({ top: Math.min(start, end) });
  if (start < end) follows = false;
}
function watchReader() {
  const main = document.querySelector('main');
  let last = scrollY, touched = 0;
  history.scrollRestoration = 'manual';
  addEventListener('scroll', () => {
    if (innerHeight + scrollY >= document.body.scrollHeight - 2) follows = true;
    else if (scrollY < last) follows = false;
    last = scrollY;
  }, { passive: true });
  // A smooth scroll begins with less than a pixel, and following would end it there.
  const leave = () => { if (scrollY > 0) follows = false; };
  main.addEventListener('wheel', ({ deltaY }) => { if (deltaY < 0) leave(); }, { passive: true });
  main.addEventListener('touchstart', ({ touches }) => { touched = touches[0].clientY; }, { passive: true });
  main.addEventListener('touchmove', ({ touches }) => { if (touches[0].clientY > touched) leave(); }, { passive: true });
  addEventListener('keydown', ({ key, target }) => { if (UPWARD.includes(key) && !target.matches('input, select, textarea, #events *')) leave(); });
  // Whoever opens a call wants to read it.
  $('log').addEventListener('click', ({ target }) => { if (target.closest('summary')) follows = false; });
  // This runs once a frame, right after the layout. Asking for the layout at each event froze the page.
  const sizes = new ResizeObserver(toEnd);
  sizes.observe($('log'));
  sizes.observe($('ask'));
  addEventListener('resize', toEnd);
}
