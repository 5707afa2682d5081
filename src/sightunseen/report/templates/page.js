"use strict";
(() => {
  const read = (id) => JSON.parse(document.getElementById(id).textContent);
  const figures = read("figures"), config = read("config");
  const views = new Map();  // chart element -> Vega view

  // -- theme: that of the system until the reader switches it; always light in print --------------------------------
  const root = document.documentElement, system = matchMedia("(prefers-color-scheme: dark)");
  let chosen = null;
  const theme = (printing) => {
    root.dataset.theme = printing ? "light" : chosen ?? (system.matches ? "dark" : "light");
    for (const view of views.values()) ink(view, getComputedStyle(root).getPropertyValue("--ink"));
  };
  // Colour of the texts of a chart on a canvas, which style sheets do not reach.
  const ink = (view, colour) => {
    if ("ink" in view.getState({data: () => false, signals: (name) => name === "ink"}).signals) view.signal("ink", colour.trim()).run();
  };
  theme();
  system.addEventListener("change", () => theme());
  addEventListener("beforeprint", () => theme(true));
  addEventListener("afterprint", () => theme());
  document.getElementById("theme").addEventListener("click", () => {
    chosen = root.dataset.theme === "dark" ? "light" : "dark";
    theme();
  });

  // -- figures -----------------------------------------------------------------------------------------------------
  const column = (packed) => Array.isArray(packed) ? packed : packed.codes.map((code) => packed.levels[code]);
  const unpacked = (columns) => Object.fromEntries(Object.entries(columns).map(([name, packed]) => [name, column(packed)]));
  const rowsOf = (columns) => {
    const names = Object.keys(columns);
    return (columns[names[0]] ?? []).map((_, k) => Object.fromEntries(names.map((name) => [name, columns[name][k]])));
  };
  for (const figure of Object.values(figures)) figure.columns = unpacked(figure.columns);

  const draw = async (element) => {
    const figure = figures[element.dataset.figure], panel = figure.panels[Number(element.dataset.panel)];
    const spec = {...panel.spec, datasets: {rows: rowsOf(figure.columns)}}, width = element.clientWidth;
    const legend = {...config.legend, columns: width < 480 ? 1 : 0};  // one column on a phone
    const axis = {...config.axis, labelLimit: Math.max(110, Math.min(320, 0.4 * width))};
    if (width < panel.least) {
      spec.width = panel.least;
      element.classList.add("wide");
      element.tabIndex = 0;
    }
    try {
      const result = await vegaEmbed(element, spec, {
        actions: false, config: {...config, axis, legend, background: null}, renderer: panel.canvas ? "canvas" : "svg",
      });
      views.set(element, result.view);
      ink(result.view, getComputedStyle(root).getPropertyValue("--ink"));
      for (const name of ["role", "aria-label", "aria-roledescription"]) element.removeAttribute(name);  // of Vega
      const drawing = element.querySelector("svg, canvas");
      drawing.setAttribute("role", "img");
      drawing.setAttribute("aria-label", panel.label);
      element.dataset.drawn = "yes";
    } catch (error) {
      element.innerHTML = "";
      const message = document.createElement("p");
      message.className = "failed";
      message.textContent = `This chart could not be drawn: ${error.message}`;
      element.append(message);
      throw error;
    }
  };
  const drawAll = async () => {
    for (const element of document.querySelectorAll(".chart")) await draw(element);
    document.body.dataset.ready = "yes";
  };

  // -- downloads ---------------------------------------------------------------------------------------------------
  const quoted = (value) => {
    const text = value === null || value === undefined ? "" : String(value);
    return /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  };
  const csvOf = (columns) => {
    const names = Object.keys(columns);
    const lines = (columns[names[0]] ?? []).map((_, k) => names.map((name) => quoted(columns[name][k])).join(","));
    return [names.map(quoted).join(","), ...lines].join("\n") + "\n";
  };
  const save = (address, name) => {
    const link = Object.assign(document.createElement("a"), {href: address, download: name});
    link.click();
  };
  const saveText = (text, name, type) => {
    const address = URL.createObjectURL(new Blob([text], {type}));
    save(address, name);
    setTimeout(() => URL.revokeObjectURL(address), 1000);
  };
  const labelled = (svg, chart) => {
    const file = new DOMParser().parseFromString(svg, "image/svg+xml").documentElement;
    for (const name of ["role", "aria-label"]) file.setAttribute(name, chart.querySelector("svg, canvas").getAttribute(name));
    return new XMLSerializer().serializeToString(file);
  };
  document.addEventListener("click", async (event) => {
    const button = event.target.closest("button[data-save]");
    if (!button) return;
    const kind = button.dataset.save;
    if (kind === "csv") {
      const name = button.dataset.of, kept = document.querySelector(`script[data-csv="${CSS.escape(name)}"]`);
      saveText(kept ? JSON.parse(kept.textContent) : csvOf(figures[name].columns), `${name}.csv`, "text/csv;charset=utf-8");
      return;
    }
    const chart = button.closest(".panel").querySelector(".chart"), view = views.get(chart);
    const several = figures[chart.dataset.figure].panels.length > 1;
    const name = chart.dataset.figure + (several ? `-${Number(chart.dataset.panel) + 1}` : "");
    view.background("white");
    ink(view, "#1c2127");
    if (kind === "svg") saveText(labelled(await view.toSVG(), chart), `${name}.svg`, "image/svg+xml");
    else save(await view.toImageURL("png", 2), `${name}.png`);
    view.background(null);
    theme();
  });

  // -- tables ------------------------------------------------------------------------------------------------------
  const number = (text) => {
    const found = text.trim().match(/^[-+−]?\d[\d,]*\.?\d*(e[-+]?\d+)?/i);
    return found ? Number(found[0].replaceAll(",", "").replace("−", "-")) : NaN;
  };
  const numeric = /^[-+−]?[\d,.]+(e[-+]?\d+)?( ?(±.*|%|s|[†‡*]|×))*$|^[-–]?$/i;
  for (const table of document.querySelectorAll("table")) {
    const heads = [...table.tHead.rows[0].cells], body = table.tBodies[0], first = [...body.rows];
    heads.forEach((head, k) => {
      const cells = first.map((row) => row.cells[k]);
      const texts = cells.map((cell) => cell.textContent.trim());
      if (texts.some((text) => /\d/.test(text)) && texts.every((text) => numeric.test(text))) [head, ...cells].forEach((cell) => cell.classList.add("number"));
      head.querySelector("button").addEventListener("click", () => {
        const descending = head.getAttribute("aria-sort") === "ascending" || (!head.hasAttribute("aria-sort") && head.classList.contains("number"));
        heads.forEach((other) => other.removeAttribute("aria-sort"));
        head.setAttribute("aria-sort", descending ? "descending" : "ascending");
        const sign = descending ? -1 : 1;
        const keyed = [...body.rows].map((row) => [row, row.cells[k].textContent, number(row.cells[k].textContent)]);
        keyed.sort(([, a, x], [, b, y]) => {
          if (Number.isNaN(x) || Number.isNaN(y)) return Number.isNaN(x) && Number.isNaN(y) ? sign * a.localeCompare(b) : Number.isNaN(x) - Number.isNaN(y);
          return sign * (x - y);
        });
        body.append(...keyed.map(([row]) => row));
      });
    });
  }
  drawAll();
})();
