// The definition as a picture: two Laplace laws, e^epsilon times the second, and the mass that it leaves uncovered.
"use strict";

(function () {
  const place = document.getElementById("two-laws");
  if (!place) return;
  const scale = Number(place.dataset.scale || 2);
  const shift = Number(place.dataset.shift || 1);
  const width = 560, height = 240, reach = 10, points = 400;
  const namespace = "http://www.w3.org/2000/svg";
  const colours = { first: "#1f6feb", second: "#d1702f", covered: "#d1702f", open: "#1f6feb" };

  const density = (x, centre) => Math.exp(-Math.abs(x - centre) / scale) / (2 * scale);
  const xs = Array.from({ length: points + 1 }, (_, i) => -reach + (2 * reach * i) / points);
  const across = (x) => ((x + reach) / (2 * reach)) * width;
  const top = density(0, 0) * 1.6;
  const down = (y) => height - Math.min(y / top, 1) * height;

  function element(name, attributes, parent) {
    const made = document.createElementNS(namespace, name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    parent.appendChild(made);
    return made;
  }

  const path = (law) => "M" + xs.map((x) => across(x).toFixed(1) + " " + down(law(x)).toFixed(1)).join("L");

  // Uncovered mass in closed form is simple for these laws, but a sum shows what the formula means.
  function uncovered(epsilon) {
    const step = (2 * 40 * scale) / 200000;
    let sum = 0;
    for (let x = -40 * scale; x < 40 * scale; x += step) {
      sum += Math.max(0, density(x, 0) - Math.exp(epsilon) * density(x, shift)) * step;
    }
    return sum;
  }

  const label = document.createElement("label");
  label.textContent = "epsilon ";
  const slider = document.createElement("input");
  Object.assign(slider, { type: "range", min: "0", max: "1", step: "0.01", value: "0.2" });
  slider.style.width = "60%";
  label.appendChild(slider);
  const words = document.createElement("output");
  label.appendChild(words);
  place.appendChild(label);

  const drawing = element("svg", { viewBox: `0 0 ${width} ${height}`, width: "100%", role: "img" }, place);
  element("title", {}, drawing).textContent = "Output laws on two neighbours";
  const area = element("path", { fill: colours.open, "fill-opacity": "0.35" }, drawing);
  element("path", { d: path((x) => density(x, 0)), fill: "none", stroke: colours.first, "stroke-width": "2" }, drawing);
  element("path", { d: path((x) => density(x, shift)), fill: "none", stroke: colours.second, "stroke-width": "2" }, drawing);
  const cover = element("path", { fill: "none", stroke: colours.covered, "stroke-dasharray": "5 4", "stroke-width": "2" }, drawing);

  function draw() {
    const epsilon = Number(slider.value);
    const covering = (x) => Math.exp(epsilon) * density(x, shift);
    cover.setAttribute("d", path(covering));
    const over = xs.map((x) => across(x).toFixed(1) + " " + down(density(x, 0)).toFixed(1));
    const under = xs.map((x) => across(x).toFixed(1) + " " + down(Math.min(density(x, 0), covering(x))).toFixed(1));
    area.setAttribute("d", "M" + over.join("L") + "L" + under.reverse().join("L") + "Z");
    words.textContent = ` ε = ${epsilon.toFixed(2)}, δ = ${uncovered(epsilon).toFixed(4)}`;
  }

  slider.addEventListener("input", draw);
  draw();
})();
