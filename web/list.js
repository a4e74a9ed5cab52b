// A list of any length with few nodes: items come in blocks of 50, and only the blocks around the
// viewport are in the document, six at most. What stands above and below is two boxes of a height:
//
//   above │ block │ block │ block │ below
//
// Heights are estimated until a block is shown. When one changes, the first visible item keeps its
// place.
import { failure, h } from "./dom.js";

export const BLOCK = 50;
const MOUNTED = 6;
const TALLEST = 16e6; // pixels of all estimates together: browsers end near 33 million

export class BlockList {
	/**
	 * load(block, signal) resolves with the items of a block; render(item) makes an element.
	 * `estimate` is the usual height of an item. role and label are for screen readers.
	 */
	constructor({ load, render, estimate, role, label, onview }) {
		this.load = load;
		this.render = render;
		this.estimate = estimate;
		this.onview = onview ?? (() => {});
		this.count = 0;
		this.blocks = new Map(); // number -> {box, items: null while they load, controller}
		this.heights = new Map(); // number -> pixels
		this.current = -1; // the item that the keyboard is at
		this.above = h("div");
		this.below = h("div"); // or why there are none
		const named = { class: "list", tabindex: 0, role, "aria-label": label };
		this.root = h("div", named, this.above, this.below);
		this.root.addEventListener("scroll", () => this.schedule(), { passive: true });
		for (const kind of ["wheel", "touchmove", "pointerdown", "keydown"]) {
			this.root.addEventListener(kind, () => (this.follows = false), { passive: true });
		}
		this.width = 0;
		this.observer = new ResizeObserver((entries) => this.measured(entries));
		this.observer.observe(this.root);
	}

	destroy() {
		this.observer.disconnect();
		for (const block of this.blocks.values()) block.controller.abort();
		this.blocks.clear();
		this.destroyed = true;
	}

	/** Forgets everything that is shown. */
	reset(count) {
		for (const number of [...this.blocks.keys()]) this.drop(number);
		this.heights.clear();
		this.current = -1;
		this.count = count;
		this.root.scrollTop = 0;
		this.update();
	}

	// ---- geometry --------------------------------------------------------------------------------

	get blockCount() {
		return Math.ceil(this.count / BLOCK);
	}

	itemsOf(number) {
		return Math.min(BLOCK, this.count - number * BLOCK);
	}

	height(number) {
		return (
			this.heights.get(number) ??
			this.itemsOf(number) * Math.min(this.estimate, TALLEST / Math.max(this.count, 1))
		);
	}

	offset(number) {
		let sum = 0;
		for (let i = 0; i < number; i++) sum += this.height(i);
		return sum;
	}

	/** The block at a distance from the top. */
	blockAt(distance) {
		let number = 0;
		for (let rest = distance - this.height(0); rest >= 0 && number < this.blockCount - 1;) {
			number++;
			rest -= this.height(number);
		}
		return number;
	}

	get atEnd() {
		return this.root.scrollTop + this.root.clientHeight >= this.root.scrollHeight - 8;
	}

	// ---- what is in the document -----------------------------------------------------------------

	schedule() {
		this.frame ??= requestAnimationFrame(() => {
			this.frame = undefined;
			if (!this.destroyed) this.update();
		});
	}

	/** Shows the blocks around the viewport, half a screen ahead in both directions. */
	update() {
		const screen = this.root.clientHeight || 600;
		const middle = this.blockAt(this.root.scrollTop);
		let first = this.blockAt(Math.max(0, this.root.scrollTop - screen / 2));
		let last = this.blockAt(this.root.scrollTop + 1.5 * screen);
		first = Math.max(first, middle - 1);
		last = Math.min(last, first + MOUNTED - 1, this.blockCount - 1);
		for (const number of [...this.blocks.keys()]) {
			if (number < first || number > last) this.drop(number);
		}
		for (let number = first; number <= last; number++) {
			if (!this.blocks.has(number)) this.mount(number);
		}
		this.space();
		this.onview();
	}

	/** Sets the heights of what is not in the document. */
	space() {
		const numbers = [...this.blocks.keys()];
		const first = Math.min(...numbers, this.blockCount);
		const last = Math.max(...numbers, -1);
		this.above.style.height = `${this.offset(first)}px`;
		this.below.style.height = `${this.offset(this.blockCount) - this.offset(last + 1)}px`;
		for (const [number, block] of this.blocks) {
			if (block.items === null) block.box.style.minHeight = `${this.height(number)}px`;
		}
	}

	mount(number) {
		const box = h("div", { role: "presentation", class: "block loading" });
		const before = Math.min(...[...this.blocks.keys()].filter((other) => other > number), Infinity);
		this.root.insertBefore(box, before === Infinity ? this.below : this.blocks.get(before).box);
		const block = { box, items: null, controller: new AbortController() };
		this.blocks.set(number, block);
		block.done = this.load(number, block.controller.signal)
			.then((items) => {
				if (this.blocks.get(number) === block) this.put(number, block, items);
			})
			.catch((error) => {
				if (this.blocks.get(number) !== block || error.name === "AbortError") return;
				const again = () => {
					this.drop(number);
					this.root.focus();
					this.update();
				};
				box.className = "block";
				box.replaceChildren(failure(error, again));
			});
	}

	put(number, block, items) {
		this.keepPlace(() => {
			block.items = items;
			block.box.className = "block";
			block.box.style.minHeight = "";
			block.box.replaceChildren(...items.map((item, i) => this.element(item, number * BLOCK + i)));
			this.heights.set(number, block.box.offsetHeight);
			this.space();
		});
		this.observer.observe(block.box);
	}

	element(item, index) {
		const element = this.render(item, index);
		element.tabIndex = -1;
		element.setAttribute("aria-posinset", index + 1);
		element.setAttribute("aria-setsize", this.setSize ?? this.count);
		return element;
	}

	drop(number) {
		const block = this.blocks.get(number);
		block.controller.abort();
		this.observer.unobserve(block.box);
		block.box.remove();
		this.blocks.delete(number);
	}

	/** Runs a change of heights and moves the list so that what was on top stays there. */
	keepPlace(change) {
		const top = this.root.getBoundingClientRect().top;
		const held = this.pinned?.isConnected ? this.pinned : this.firstVisible(top);
		const from = held?.getBoundingClientRect().top;
		change();
		if (held?.isConnected) this.root.scrollTop += held.getBoundingClientRect().top - from;
	}

	firstVisible(top) {
		for (const block of this.inOrder()) {
			if (block.items !== null && block.box.getBoundingClientRect().bottom > top) {
				for (const child of block.box.children) {
					if (child.getBoundingClientRect().bottom > top) return child;
				}
			}
		}
		return null;
	}

	inOrder() {
		return [...this.blocks].sort(([a], [b]) => a - b).map(([, block]) => block);
	}

	/** Items unfolded, images arrived, or the window has another width. */
	measured(entries) {
		if (this.destroyed) return;
		if (this.root.clientWidth !== this.width) {
			this.width = this.root.clientWidth;
			this.heights.clear();
		}
		for (const [number, block] of this.blocks) {
			if (block.items !== null && entries.some((entry) => entry.target === block.box)) {
				this.heights.set(number, block.box.offsetHeight);
			}
		}
		const end = this.follows;
		this.space();
		if (end) this.toEnd();
		this.schedule();
	}

	// ---- places ----------------------------------------------------------------------------------

	/** The element of an item, or null when it is not in the document. */
	elementAt(index) {
		const block = this.blocks.get(Math.floor(index / BLOCK));
		return block?.items ? (block.box.children[index % BLOCK] ?? null) : null;
	}

	itemAt(index) {
		return this.blocks.get(Math.floor(index / BLOCK))?.items?.[index % BLOCK] ?? null;
	}

	/** Waits until all blocks in the document have their items. */
	async settled() {
		let waiting;
		do {
			waiting = [...this.blocks.values()].filter((block) => block.items === null);
			await Promise.all(waiting.map((block) => block.done));
		} while (waiting.some((block) => block.items !== null) && !this.destroyed);
	}

	/** Brings an item into view and makes it the current one. */
	async jump(index, { focus = true, align = "center" } = {}) {
		let wanted = Math.max(0, Math.min(index, this.count - 1));
		const ticket = (this.ticket = {});
		this.follows = false;
		if (this.count === 0) return;
		this.mark(wanted); // at once: the next step counts from here, also while this one loads
		if (!this.elementAt(wanted)) {
			this.space(); // a new list has no height to scroll in yet
			this.root.scrollTop =
				this.offset(Math.floor(wanted / BLOCK)) + ((wanted % BLOCK) * this.estimate) / 2;
			this.update();
			await this.blocks.get(Math.floor(wanted / BLOCK))?.done;
		}
		if (this.ticket !== ticket || this.destroyed) return;
		wanted = Math.min(wanted, this.count - 1); // the end may have come earlier than expected
		this.show(wanted, focus, align);
		this.pinned = this.elementAt(wanted);
		this.update();
		await this.settled();
		this.pinned = null;
		if (this.ticket === ticket && !this.destroyed) this.show(wanted, focus, align);
	}

	show(index, focus, align) {
		const element = this.elementAt(index);
		if (!element) return;
		const room = this.root.getBoundingClientRect();
		const place = element.getBoundingClientRect();
		if (align === "center") {
			this.root.scrollTop += place.top - room.top - Math.max(12, (room.height - place.height) / 2);
		} else if (place.top < room.top) {
			this.root.scrollTop += place.top - room.top - 8;
		} else if (place.bottom > room.bottom) {
			this.root.scrollTop += Math.min(place.bottom - room.bottom + 8, place.top - room.top - 8);
		}
		this.mark(index);
		if (focus) element.focus({ preventScroll: true });
	}

	/** Makes an item the current one. */
	mark(index) {
		this.elementAt(this.current)?.classList.remove("current");
		this.current = index;
		this.elementAt(index)?.classList.add("current");
	}

	/** One item on, from the current one or from the first visible one. */
	move(step) {
		if (this.count === 0) return;
		let from = this.current;
		if (from < 0 || !this.blocks.has(Math.floor(from / BLOCK))) {
			const visible = this.firstVisible(this.root.getBoundingClientRect().top);
			from = visible ? Number(visible.getAttribute("aria-posinset")) - 1 - step : -1;
		}
		void this.jump(from + step, { align: "near" });
	}

	/** The newest item stays in view until the reader scrolls. */
	toEnd() {
		this.follows = true;
		this.root.scrollTop = this.root.scrollHeight;
		this.update();
		this.root.scrollTop = this.root.scrollHeight;
	}

	/** An item behind the last one. */
	append(item) {
		const follows = this.follows || this.atEnd;
		const number = Math.floor(this.count / BLOCK);
		const block = this.blocks.get(number);
		this.count++;
		if (block?.items) {
			block.items.push(item);
			block.box.append(this.element(item, this.count - 1));
			this.heights.set(number, block.box.offsetHeight);
		}
		if (follows) this.toEnd();
		else this.schedule();
		return follows;
	}
}
