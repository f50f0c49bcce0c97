// Two runs over each other, by step.
"use strict";
(() => {
  const boot = JSON.parse(document.getElementById("boot").textContent);
  const where = { marks: {}, series: null, range: null, choose: (low, high) => { where.range = [low, high]; draw(); } };
  function draw() {
    for (const name of ["loss", "grad_norm", "tokens_per_s", "step_s"]) {
      const steps = [...new Set(boot.series.flatMap((each) => each.step))].sort((a, b) => a - b);
      const values = boot.series.map((each) => {
        const at = new Map(each.step.map((step, i) => [step, each.columns[name].last[i]]));
        // A run whose stretches end elsewhere has no point here: that is no gap of its curve.
        return steps.map((step) => at.has(step) ? at.get(step) : undefined);
      });
      Charts.make(where, name, boot.names.map((label, i) => Charts.line(label, i)), [steps, ...values], {});
      Charts.legend(name, boot.names);
    }
  }
  draw();
  document.body.dataset.ready = "true";
})();
