// Talks to the lab: the token that this tab keeps, requests, and jobs that are followed until they end.

const KEY = "softlookup-lab-token";

/** Take the token out of the address, so that it is neither shown nor bookmarked; this tab keeps it. */
export function takeToken() {
  const given = new URLSearchParams(location.search).get("token");
  if (given) {
    sessionStorage.setItem(KEY, given);
    history.replaceState(null, "", "/");
  }
}

/** Ask for JSON. Throws an Error with the words of the lab when it refuses. */
export async function ask(path, body) {
  const headers = { "x-softlookup-token": sessionStorage.getItem(KEY) ?? "" };
  if (body !== undefined) headers["content-type"] = "application/json";
  let answer;
  try {
    answer = await fetch(path, {
      method: body === undefined ? "GET" : "POST",
      headers,
      body: body === undefined ? undefined : JSON.stringify(body),
    });
  } catch {
    throw new Error("The lab does not answer. Is it still running in the terminal?");
  }
  const told = await answer.json();
  if (!answer.ok) throw new Error(told.error);
  return told;
}

/** A job ended because somebody cancelled it. */
export class Cancelled extends Error {}

/** Start a job; `onProgress` is told how far it is. Returns {result: a promise, cancel()}. */
export function start(asked, onProgress) {
  let number = null;
  let cancelled = false;
  const cancel = async () => {
    cancelled = true;
    if (number !== null) await ask(`/api/jobs/${number}/cancel`, {});
  };
  const follow = async () => {
    let job = await ask("/api/jobs", asked);
    number = job.job;
    if (cancelled) await ask(`/api/jobs/${number}/cancel`, {});
    while (job.state === "waiting" || job.state === "running") {
      onProgress(job);
      job = await ask(`/api/jobs/${number}?seen=${encodeURIComponent(job.seen ?? "")}`);
    }
    if (job.state === "cancelled") throw new Cancelled();
    if (job.state === "failed") throw new Error(job.error);
    return job.result;
  };
  return { result: follow(), cancel };
}
