// Two runs over each other, by step, by tokens trained or by hours of training.
"use strict";
(() => {
  const boot = JSON.parse(document.getElementById("boot").textContent);
  const where = { marks: {}, series: null, range: null, choose: (low, high) => { where.range = [low, high]; draw(); } };
  let axis = "step";
  function draw() {
    for (const name of ["loss", "grad_norm", "tokens_per_s", "step_s"]) {
      const places = [...new Set(boot.series.flatMap((each) => each[axis]))].sort((a, b) => a - b);
      const values = boot.series.map((each) => {
        const at = new Map(each[axis].map((place, i) => [place, each.columns[name].last[i]]));
        // A run whose stretches end elsewhere has no point here: that is no gap of its curve.
        return places.map((place) => at.has(place) ? at.get(place) : undefined);
      });
      const lines = boot.names.map((label, i) => Charts.line(label, i));
      Charts.make(where, name, lines, [places, ...values], { isContinuous: axis !== "step" });
      Charts.legend(name, lines);
    }
    document.body.dataset.axis = axis;
  }
  for (const choice of document.querySelectorAll("input[name=axis]")) {
    // A browser keeps what was chosen before a reload.
    if (choice.checked) axis = choice.value;
    choice.addEventListener("change", () => { axis = choice.value; where.range = null; draw(); });
  }
  draw();
  document.body.dataset.ready = "true";
})();
