// The difference of two lists of lines: what both have in the same order stays, the rest goes or
// comes.

const CELLS_MAX = 4e6; // of the table; beyond it the different middle is shown as a whole

/** Rows of [" ", line], ["-", line] and ["+", line]. */
export function changes(before, after) {
	let head = 0;
	while (head < Math.min(before.length, after.length) && before[head] === after[head]) head++;
	let tail = 0;
	while (
		tail < Math.min(before.length, after.length) - head &&
		before[before.length - 1 - tail] === after[after.length - 1 - tail]
	)
		tail++;
	const same = (line) => [" ", line];
	return [
		...before.slice(0, head).map(same),
		...middle(before.slice(head, before.length - tail), after.slice(head, after.length - tail)),
		...before.slice(before.length - tail).map(same),
	];
}

function middle(before, after) {
	const [n, m] = [before.length, after.length];
	if (n * m > CELLS_MAX)
		return [...before.map((line) => ["-", line]), ...after.map((line) => ["+", line])];
	// longest[i * (m + 1) + j]: lines in common of before from i on and after from j on
	const longest = new Uint32Array((n + 1) * (m + 1));
	const at = (i, j) => longest[i * (m + 1) + j];
	for (let i = n - 1; i >= 0; i--) {
		for (let j = m - 1; j >= 0; j--) {
			longest[i * (m + 1) + j] =
				before[i] === after[j] ? at(i + 1, j + 1) + 1 : Math.max(at(i + 1, j), at(i, j + 1));
		}
	}
	const rows = [];
	let [i, j] = [0, 0];
	while (i < n || j < m) {
		if (i < n && j < m && before[i] === after[j]) {
			rows.push([" ", before[i]]);
			i++;
			j++;
		} else if (i < n && (j === m || at(i + 1, j) >= at(i, j + 1))) rows.push(["-", before[i++]]);
		else rows.push(["+", after[j++]]);
	}
	return rows;
}
