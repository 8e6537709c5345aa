// Randomises an answer in the browser and sends the result. Every decision is exact: integers of the system's entropy
// are compared with the numerators of rational probabilities, and no float takes part.
"use strict";

// An integer from 0 to bound - 1, each equally likely: draw bits, and again while they reach the bound.
function below(bound) {
  const bits = (bound - 1n).toString(2).length;
  const bytes = new Uint8Array(Math.ceil(bits / 8));
  for (;;) {
    crypto.getRandomValues(bytes);
    let drawn = 0n;
    for (const byte of bytes) drawn = (drawn << 8n) | BigInt(byte);
    drawn &= (1n << BigInt(bits)) - 1n;
    if (drawn < bound) return drawn;
  }
}

// A probability as text, "0.75" or "3/4", as [numerator, denominator].
function rational(text) {
  if (text.includes("/")) return text.split("/").map(BigInt);
  const [whole, digits = ""] = text.split(".");
  return [BigInt(whole + digits), 10n ** BigInt(digits.length)];
}

function toss([numerator, denominator]) {
  return below(denominator) < numerator;
}

// The report of the category at a place, as the bytes that `tacit.local` makes.
function randomise(survey, place) {
  const { protocol, categories } = survey.protocol;
  const k = Array.isArray(categories) ? categories.length : categories;
  const truth = rational(survey.probabilities.truth);
  const report = new Uint8Array(survey.report_bytes);
  if (protocol === "unary") {
    const noise = rational(survey.probabilities.noise);
    for (let i = 0; i < k; i++) if (toss(i === place ? truth : noise)) report[i >> 3] |= 1 << (i & 7);
    return report;
  }
  if (protocol !== "k-ary") throw new Error("this page cannot randomise by " + protocol);
  if (!toss(truth)) {
    const other = Number(below(BigInt(k - 1)));
    place = other + (other >= place ? 1 : 0);
  }
  for (let i = 0, rest = place; i < report.length; i++, rest = Math.floor(rest / 256)) report[i] = rest % 256;
  return report;
}

async function send(survey, report) {
  const name = Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0"));
  const options = {
    method: "POST",
    credentials: "omit",
    headers: { "Content-Type": "application/json", "Idempotency-Key": name.join("") },
    body: JSON.stringify({ version: 1, reports: btoa(String.fromCharCode(...report)) }),
  };
  const response = await fetch("/v1/collect/" + encodeURIComponent(survey.name), options);
  if (!response.ok) throw new Error((await response.json()).error.message);
}

const form = document.getElementById("survey");
if (form) {
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const status = document.getElementById("sent");
    const button = form.querySelector("button");
    button.disabled = true;
    try {
      const found = await fetch("/v1/surveys/" + encodeURIComponent(form.dataset.survey), { credentials: "omit" });
      if (!found.ok) throw new Error((await found.json()).error.message);
      const survey = await found.json();
      await send(survey, randomise(survey, Number(new FormData(form).get("answer"))));
      status.textContent = "Sent, randomised. Your answer itself never left this page.";
    } catch (problem) {
      status.textContent = "Not sent: " + problem.message;
      button.disabled = false;
    }
  });
}
