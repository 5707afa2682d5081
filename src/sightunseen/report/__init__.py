"""Reports: self-contained HTML pages on a model, on unlabelled images and on a benchmark, with figures as SVG and PDF."""
