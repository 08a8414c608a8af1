// Uploads a file with a key of package valet:
//
//	import {upload, remembered, digest} from "/files/upload.js"
//	const place = location.pathname // or another text: what the file is for
//	const key = remembered(file, place) ?? (await (await fetch("/wishes", {method: "POST", body: …})).json()).url
//	const status = await upload(key, file, {place, progress: (done, all) => …, signal})
//
// upload sends several parts at a time, asks which parts are there after it was cut off, and ends when the file was
// checked: status.state is then "clean", "held", "rejected", "expired" or "revoked". A page that is loaded again goes on
// where it was: remembered returns the key of an upload of the same file that hasn't ended, for the same place. digest
// returns a file's SHA-256 in hexadecimal, or "" where the browser can't tell or the file is large.

const atOnce = 4, tries = 8, rounds = 5, askEvery = 1000, small = 64 << 20;
const mark = (file, place) => "valet:" + [place, file.name, file.size, file.lastModified].join("/");
const refused = (text, final) => Object.assign(new Error(text), {final});

export async function digest(file) {
	if (!globalThis.crypto?.subtle || file.size > small) return "";
	const sum = new Uint8Array(await crypto.subtle.digest("SHA-256", await file.arrayBuffer()));
	return Array.from(sum, (b) => b.toString(16).padStart(2, "0")).join("");
}

export function remembered(file, place = "") {
	try { return localStorage.getItem(mark(file, place)) ?? undefined; } catch { return undefined; }
}

function remember(file, place, key) {
	const name = mark(file, place);
	try { key ? localStorage.setItem(name, key) : localStorage.removeItem(name); } catch { /* private mode */ }
}

export async function upload(key, file, {place = "", progress = () => {}, signal} = {}) {
	remember(file, place, key);
	try {
		let status = await ask("GET", key, signal);
		for (let round = 1; ; ) {
			if (status.state === "granted") {
				if (round > 1) await pause(askEvery * round, signal);
				if (round++ > rounds) throw refused("the program says again and again that bytes are missing");
				await sendParts(key, file, status, progress, signal);
				status = await ask("POST", key + "/complete", signal, [409]);
			} else if (status.state === "arrived") {
				await pause(askEvery, signal);
				status = await ask("GET", key, signal);
			} else break;
		}
		remember(file, place);
		return status;
	} catch (e) {
		if (e.final) remember(file, place);
		throw e;
	}
}

async function sendParts(key, file, status, progress, signal) {
	if (file.size !== status.size) throw refused("the file has another size than the upload", true);
	const have = new Set(numbers(status.have)), todo = [];
	for (let n = 1; n <= status.parts; n++) if (!have.has(n)) todo.push(n);
	let done = Math.min(status.size, have.size * status.partSize);
	progress(done, status.size);
	const worker = async () => {
		while (todo.length > 0) {
			const {parts = []} = await ask("POST", key + "/parts?n=" + todo.splice(0, 2).join(), signal);
			for (const part of parts) {
				const at = (part.n - 1) * status.partSize;
				await put(key, part, file.slice(at, at + part.size), signal);
				progress(done += part.size, status.size);
			}
		}
	};
	await Promise.all(Array.from({length: atOnce}, worker));
}

// put sends a part. A URL that isn't good any more is replaced.
async function put(key, part, bytes, signal) {
	for (let i = 1; ; i++) {
		try {
			const answer = await fetch(part.url, {method: "PUT", body: bytes, signal, credentials: "omit"});
			if (answer.ok) return;
			if (i === tries) throw refused("part " + part.n + ": " + answer.status);
			if ([401, 403, 404, 410].includes(answer.status)) {
				const {parts} = await ask("POST", key + "/parts?n=" + part.n, signal);
				if (!parts) return; // another tab has completed the file, or it has ended
				[part] = parts;
			}
		} catch (e) {
			if (i === tries || signal?.aborted || e.final) throw e;
		}
		await pause(250 * 2 ** Math.min(i, 6) * (0.5 + Math.random()), signal);
	}
}

// ask sends a request to the program, again and again while the network or the program is away.
async function ask(method, url, signal, also = []) {
	for (let i = 1; ; i++) {
		try {
			const answer = await fetch(url, {method, signal});
			const body = await answer.json().catch(() => ({}));
			if (answer.ok || also.includes(answer.status)) return body;
			if (body.state) return body;
			if (answer.status < 500 && answer.status !== 429) throw refused(body.error ?? String(answer.status), true);
			if (i === tries) throw refused(body.error ?? String(answer.status));
		} catch (e) {
			if (i === tries || signal?.aborted || e.final !== undefined) throw e;
		}
		await pause(250 * 2 ** Math.min(i, 6) * (0.5 + Math.random()), signal);
	}
}

function numbers(text = "") {
	return text.split(",").filter(Boolean).flatMap((piece) => {
		const [from, to = from] = piece.split("-").map(Number);
		return Array.from({length: to - from + 1}, (_, i) => from + i);
	});
}

function pause(ms, signal) {
	return new Promise((ok, no) => {
		const stop = () => { clearTimeout(timer); no(signal.reason); };
		const timer = setTimeout(() => { signal?.removeEventListener("abort", stop); ok(); }, ms);
		signal?.addEventListener("abort", stop, {once: true});
	});
}
