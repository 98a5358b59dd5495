// Keeps what others change in view: charges, payouts, coins, infractions, balances, clock and faults. Everything works without it.
'use strict';
const parts = ['clock', 'balances', 'faults', 'charges', 'payouts', 'wallet', 'sent', 'infractions'];
async function refresh() {
  if (document.hidden) return;
  try {
    const answer = await fetch('/', { cache: 'no-store' });
    if (!answer.ok) return;
    const fresh = new DOMParser().parseFromString(await answer.text(), 'text/html');
    for (const id of parts) {
      const now = document.getElementById(id), next = fresh.getElementById(id);
      // What somebody is about to press stays where it is.
      if (!now || !next || now.contains(document.activeElement) || now.innerHTML === next.innerHTML) continue;
      now.replaceWith(next);
    }
  } catch { /* the simulator is away; the next look may find it */ }
}
setInterval(refresh, 2000);
