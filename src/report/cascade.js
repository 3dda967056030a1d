// The place of the chain of a cascade with its root: who waited for whom. The document has none yet, so nothing is shown;
// when it has, as `cascade`, it is drawn here, between the overview and the circuits.

export function cascade(report) {
  if (!report.cascade) return null;
  return null;
}
