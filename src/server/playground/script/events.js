// The list of events.

const ROWS_MAX = 500;

// Lines in the list of events. The layout is read only while they can be seen.
function note(events) {
  const rows = $('rows'), stay = !$('events').hidden && rows.scrollTop + rows.clientHeight >= rows.scrollHeight - 40;
  rows.append(...events.slice(-ROWS_MAX).map(({ id, type, data }) => {
    const row = Object.assign(element('li'), { tabIndex: -1 });
    row.append(element('i', '', id), element('b', '', type), json(data));
    return row;
  }));
  while (rows.childElementCount > ROWS_MAX) rows.firstElementChild.remove();
  if (stay) rows.scrollTop = rows.scrollHeight;
}
