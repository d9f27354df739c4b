//! A chart as SVG: places for everything, and then the elements from the back to the front.

use std::io;

use quick_xml::Writer;

use crate::timeline::axis::{Axis, Length, time};
use crate::timeline::chart::{Chart, Kind, Lane, Shape};
use crate::timeline::legend::legend;
use crate::timeline::svg::{Xml, empty, n, path, rect, words, write};
use crate::timeline::text::{self, Placed};

/// Where lanes begin; their names are left of it.
const LEFT: f64 = 196.0;
pub(crate) const MARGIN: f64 = 14.0;
/// A bar, and the label rows below it.
const BAR: f64 = 13.0;
const BAR_TOP: f64 = 9.0;
const ROW: f64 = 16.0;
/// Name and detail need this much.
const LANE_MIN: f64 = 38.0;
/// What goes on when the picture stops goes on for this long.
const OPEN: f64 = 30.0;
/// Something that takes no time is this wide.
const THIN: f64 = 4.0;
pub(crate) const LINE: f64 = 20.0;

struct Spot<'a> {
    lane: &'a Lane,
    top: f64,
    height: f64,
    /// Every other group of lanes stands on a band.
    on_band: bool,
    labels: Vec<Placed>,
}

impl Spot<'_> {
    fn bar(&self) -> f64 {
        self.top + BAR_TOP
    }

    fn middle(&self) -> f64 {
        self.bar() + BAR / 2.0
    }

    /// Where the letters of a row of labels stand.
    fn base(&self, row: usize) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "a few rows")]
        let rows = (row + 1) as f64;
        self.bar() + BAR + rows * ROW
    }
}

/// The document.
pub(crate) fn draw(chart: &Chart) -> io::Result<String> {
    let axis = Axis::new(&chart.instants(), LEFT);
    let placed: Vec<Vec<Placed>> = chart.lanes.iter().map(|lane| labels(lane, &axis)).collect();
    let ends = placed.iter().flatten().map(|label| label.x + text::width(&label.text, text::NORMAL));
    let wide = ends.fold(axis.right() + OPEN, f64::max).max(640.0) + MARGIN;
    let title = text::wrap(&chart.title, text::TITLE, wide - 2.0 * MARGIN);
    #[expect(clippy::cast_precision_loss, reason = "a few lines")]
    let axis_top = MARGIN + title.len() as f64 * LINE + 12.0;
    let lanes_top = axis_top + 36.0;
    let mut top = lanes_top;
    let mut spots: Vec<Spot<'_>> = Vec::new();
    for (lane, labels) in chart.lanes.iter().zip(placed) {
        #[expect(clippy::cast_precision_loss, reason = "a few rows")]
        let rows = labels.iter().map(|label| label.row + 1).max().unwrap_or(0) as f64;
        let height = (BAR_TOP + BAR + rows * ROW + 7.0).max(LANE_MIN);
        let on_band = spots.last().is_none_or(|above| above.on_band == (above.lane.group == lane.group));
        spots.push(Spot { lane, top, height, on_band, labels });
        top += height;
    }
    let legend = legend(chart, &axis, wide);
    #[expect(clippy::cast_precision_loss, reason = "a few rows")]
    let tall = top + 12.0 + (legend.iter().map(|item| item.row + 1).max().unwrap_or(0) as f64) * LINE + 8.0;

    let mut xml = Writer::new_with_indent(Vec::new(), b' ', 1);
    let size = [n(wide), n(tall)];
    let view = format!("0 0 {} {}", size[0], size[1]);
    xml.create_element("svg")
        .with_attributes([
            ("xmlns", "http://www.w3.org/2000/svg"),
            ("viewBox", view.as_str()),
            ("width", size[0].as_str()),
            ("height", size[1].as_str()),
            ("role", "img"),
            ("aria-labelledby", "title desc"),
        ])
        .write_inner_content(|xml| {
            words(xml, "title", &[("id", "title")], &chart.title)?;
            words(xml, "desc", &[("id", "desc")], &description(chart))?;
            words(xml, "style", &[], include_str!("style.css"))?;
            definitions(xml)?;
            rect(xml, "back", 0.0, 0.0, wide, tall)?;
            for (number, line) in title.iter().enumerate() {
                #[expect(clippy::cast_precision_loss, reason = "a few lines")]
                let y = MARGIN + 14.0 + number as f64 * LINE;
                write(xml, "title", MARGIN, y, line)?;
            }
            bands(xml, &spots, wide)?;
            ruler(xml, &axis, axis_top, top)?;
            guides(xml, chart, &spots, &axis, lanes_top)?;
            bars(xml, &spots, &axis)?;
            tears(xml, &axis, &spots, axis_top + 24.0)?;
            links(xml, chart, &spots, &axis)?;
            for spot in &spots {
                points(xml, spot, &axis)?;
            }
            for spot in &spots {
                told(xml, spot)?;
            }
            for item in &legend {
                item.draw(xml, top + 12.0)?;
            }
            Ok(())
        })?;
    let mut text = String::from_utf8(xml.into_inner()).map_err(io::Error::other)?;
    text.push('\n');
    Ok(text)
}

fn labels(lane: &Lane, axis: &Axis) -> Vec<Placed> {
    let at: Vec<(f64, String)> =
        lane.labels.iter().map(|label| (axis.x(label.at) + 5.0, label.text.clone())).collect();
    text::place(&at)
}

/// The picture in words, for those who cannot see it.
fn description(chart: &Chart) -> String {
    let lanes = chart.lanes.iter().map(|lane| {
        let begins = format!("{} ({}) from {} ms", lane.name, lane.detail, lane.begins.0);
        let labels = lane.labels.iter().map(|label| format!("{} ms {}", label.at, label.text));
        [begins].into_iter().chain(labels).collect::<Vec<_>>().join(", ")
    });
    lanes.collect::<Vec<_>>().join("; ")
}

fn definitions(xml: &mut Xml) -> io::Result<()> {
    xml.create_element("defs").write_inner_content(|xml| {
        let arrow = [
            ("id", "arrow"),
            ("viewBox", "0 0 8 8"),
            ("refX", "7"),
            ("refY", "4"),
            ("markerWidth", "7"),
            ("markerHeight", "7"),
            ("orient", "auto"),
        ];
        xml.create_element("marker")
            .with_attributes(arrow)
            .write_inner_content(|xml| empty(xml, "path", &[("class", "arrow"), ("d", "M0 0 8 4 0 8z")]))?;
        let hatch = [
            ("id", "hatch"),
            ("width", "6"),
            ("height", "6"),
            ("patternUnits", "userSpaceOnUse"),
            ("patternTransform", "rotate(45)"),
        ];
        xml.create_element("pattern")
            .with_attributes(hatch)
            .write_inner_content(|xml| empty(xml, "path", &[("class", "hatch"), ("d", "M0 0V6")]))?;
        Ok(())
    })?;
    Ok(())
}

/// Bands, and the names at the left.
fn bands(xml: &mut Xml, spots: &[Spot<'_>], wide: f64) -> io::Result<()> {
    for spot in spots.iter().filter(|spot| spot.on_band) {
        rect(xml, "band", 0.0, spot.top, wide, spot.height)?;
    }
    for spot in spots {
        let room = LEFT - MARGIN - 12.0;
        write(xml, "name", MARGIN, spot.top + 18.0, &text::cut(&spot.lane.name, text::BOLD, room))?;
        write(xml, "small", MARGIN, spot.top + 32.0, &text::cut(&spot.lane.detail, text::SMALL, room))?;
    }
    Ok(())
}

/// Instants, and how long what lies between takes where that is cut.
fn ruler(xml: &mut Xml, axis: &Axis, y: f64, bottom: f64) -> io::Result<()> {
    let line = y + 24.0;
    write(xml, "small", MARGIN, line, "milliseconds")?;
    for (at, x) in &axis.places {
        write(xml, "tick", *x, y + 15.0, &time(*at))?;
        path(xml, "grid", &format!("M{} {}V{}", n(*x), n(line), n(bottom)))?;
    }
    for gap in &axis.gaps {
        let (from, to) = (axis.x(gap.from), axis.x(gap.to));
        let class = if gap.length == Length::True { "axis" } else { "axis stretched" };
        path(xml, class, &format!("M{} {}H{}", n(from), n(line), n(to)))?;
        if gap.length == Length::Cut {
            let label = format!("+{}", time(gap.to - gap.from));
            write(xml, "gap", f64::midpoint(from, to), y + 1.0, &label)?;
        }
    }
    Ok(())
}

/// The axis is torn where it is cut, and so is every bar that goes through there.
fn tears(xml: &mut Xml, axis: &Axis, spots: &[Spot<'_>], ruler: f64) -> io::Result<()> {
    for gap in axis.gaps.iter().filter(|gap| gap.length == Length::Cut) {
        let x = f64::midpoint(axis.x(gap.from), axis.x(gap.to));
        tear(xml, x, ruler - 12.0)?;
        let goes_through = |spot: &&Spot<'_>| {
            let mut bars = spot.lane.bars.iter();
            bars.any(|bar| bar.from <= gap.from && bar.to.is_none_or(|to| to >= gap.to))
        };
        for spot in spots.iter().filter(goes_through) {
            tear(xml, x, spot.top + 4.0)?;
        }
    }
    Ok(())
}

/// A torn strip, four teeth high.
pub(crate) fn tear(xml: &mut Xml, x: f64, top: f64) -> io::Result<()> {
    const TEETH: &str = "l3 3-3 3 3 3-3 3 3 3-3 3 3 3-3 3";
    const TEETH_UP: &str = "l3-3-3-3 3-3-3-3 3-3-3-3 3-3-3-3";
    path(xml, "tear", &format!("M{} {}{TEETH}h6{TEETH_UP}z", n(x - 3.0), n(top)))?;
    // Without the short edges, the strip has no ends.
    let edges = format!("M{} {}{TEETH}m6 0{TEETH_UP}", n(x - 3.0), n(top));
    path(xml, "torn", &edges)
}

/// What concerns everybody crosses all lanes above its own.
fn guides(xml: &mut Xml, chart: &Chart, spots: &[Spot<'_>], axis: &Axis, top: f64) -> io::Result<()> {
    for (at, lane) in &chart.guides {
        if let Some(spot) = spots.get(chart.row(*lane)) {
            path(xml, "guide", &format!("M{} {}V{}", n(axis.x(*at)), n(spot.bar()), n(top)))?;
        }
    }
    Ok(())
}

fn bars(xml: &mut Xml, spots: &[Spot<'_>], axis: &Axis) -> io::Result<()> {
    for spot in spots {
        let mut bars = spot.lane.bars.clone();
        bars.sort_by_key(|bar| (bar.kind, bar.from));
        for bar in bars {
            let from = axis.x(bar.from);
            let to = bar.to.map_or_else(|| axis.right() + OPEN, |to| axis.x(to));
            let wide = (to - from).max(THIN);
            let (y, tall) = match bar.kind {
                Kind::Window => (spot.top + 3.0, BAR + 2.0 * (BAR_TOP - 3.0)),
                Kind::Starting | Kind::Ended => (spot.bar() + 3.0, BAR - 6.0),
                _ => (spot.bar(), BAR),
            };
            if bar.to.is_some() {
                rect(xml, bar.kind.class(), from, y, wide, tall)?;
            } else {
                let (end, half) = (from + wide, tall / 2.0);
                let arrow = format!(
                    "M{} {}H{}l{half} {half}-{half} {half}H{}z",
                    n(from),
                    n(y),
                    n(end - half),
                    n(from),
                    half = n(half)
                );
                path(xml, bar.kind.class(), &arrow)?;
            }
        }
    }
    Ok(())
}

fn links(xml: &mut Xml, chart: &Chart, spots: &[Spot<'_>], axis: &Axis) -> io::Result<()> {
    let mut drawn: Vec<(u64, f64, f64)> = Vec::new();
    for link in &chart.links {
        let (Some(from), Some(to)) = (spots.get(chart.row(link.from)), spots.get(chart.row(link.to))) else {
            continue;
        };
        let down = from.top < to.top;
        let (start, end) =
            if down { (from.bar() + BAR, to.bar() - 1.0) } else { (from.bar(), to.bar() + BAR + 1.0) };
        let (high, low) = (start.min(end), start.max(end));
        let beside = drawn.iter().filter(|(at, a, b)| *at == link.at && *a < low && high < *b).count();
        drawn.push((link.at, high, low));
        #[expect(clippy::cast_precision_loss, reason = "a few arrows")]
        let x = axis.x(link.at) + 1.5 - 4.0 * beside as f64;
        let d = format!("M{} {}V{}", n(x), n(start), n(end));
        empty(xml, "path", &[("class", "link"), ("marker-end", "url(#arrow)"), ("d", &d)])?;
    }
    Ok(())
}

fn points(xml: &mut Xml, spot: &Spot<'_>, axis: &Axis) -> io::Result<()> {
    let mut points = spot.lane.points.clone();
    points.sort_by_key(|point| (point.shape, point.at));
    for point in &points {
        // A signal that ends something stands before the end.
        let ends = points.iter().any(|other| other.shape == Shape::End && other.at == point.at);
        let aside = if point.shape == Shape::Signal && ends { 10.0 } else { 0.0 };
        shape(xml, point.shape, axis.x(point.at) - aside, spot.middle())?;
    }
    Ok(())
}

pub(crate) fn shape(xml: &mut Xml, shape: Shape, x: f64, y: f64) -> io::Result<()> {
    let at = |dx: f64, dy: f64| format!("{} {}", n(x + dx), n(y + dy));
    match shape {
        Shape::Output => {
            let (x, y) = (n(x), n(y));
            empty(xml, "circle", &[("class", "output"), ("cx", &x), ("cy", &y), ("r", "3")])
        }
        Shape::Input => path(xml, "input", &format!("M{}l4.5 -7h-9z", at(0.0, 4.0))),
        Shape::Signal => path(xml, "signal", &format!("M{}l-5 8h7l-5 8", at(3.0, -8.0))),
        Shape::Deadline => path(xml, "deadline", &format!("M{}l6 6-6 6-6-6z", at(0.0, -6.0))),
        Shape::End => path(xml, "end", &format!("M{}l10 10m0-10-10 10", at(-5.0, -5.0))),
    }
}

fn told(xml: &mut Xml, spot: &Spot<'_>) -> io::Result<()> {
    let mut labels = spot.labels.clone();
    labels.sort_by(|a, b| a.row.cmp(&b.row).then(a.x.total_cmp(&b.x)));
    for label in labels {
        let (base, x) = (spot.base(label.row), label.x - 5.0);
        path(xml, "leader", &format!("M{} {}V{}", n(x), n(spot.bar() + BAR), n(base)))?;
        // Lines of other lanes end at the words instead of crossing them.
        let ground = if spot.on_band { "band" } else { "back" };
        let wide = text::width(&label.text, text::NORMAL);
        rect(xml, ground, label.x - 2.0, base - 9.5, wide, 12.5)?;
        write(xml, "label", label.x - 1.0, base, &label.text)?;
    }
    Ok(())
}
