//! Stream-K against CUTLASS itself: the same pieces of work in the same order, for configurations drawn at random.

use colex_sched::{
    Decomposition, GemmCoord, RasterChoice, StreamK, StreamKDevice, StreamKSm90, StreamKSm90Args,
};

/// The digest of the files' headers.
struct Digest(u64);

impl Digest {
    fn new() -> Digest {
        Digest(1_469_598_103_934_665_603)
    }

    fn add(&mut self, words: &[i64]) {
        for word in words {
            self.0 = (self.0 ^ *word as u64).wrapping_mul(0x100_0000_01b3);
        }
    }
}

/// The rows of a file: numbers before and after the bar. Digests exceed 63 bits, so all are read as 128.
fn rows(text: &str) -> Vec<(Vec<i64>, Vec<i128>)> {
    let numbers = |half: &str| {
        half.split_whitespace()
            .map(|x| x.parse::<i128>().expect("a number"))
            .collect::<Vec<_>>()
    };
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines
        .map(|line| line.split_once('|').expect("a bar"))
        .map(|(left, right)| {
            (
                numbers(left).into_iter().map(|x| x as i64).collect(),
                numbers(right),
            )
        })
        .collect()
}

#[test]
fn stream_k_as_cutlass_2() {
    let rows = rows(include_str!("data/stream_k.tsv"));
    for (config, theirs) in &rows {
        let &[
            m,
            n,
            k,
            splits,
            occupancy,
            sms,
            available_sms,
            accumulator_fragments,
        ] = config.as_slice()
        else {
            panic!("eight numbers")
        };
        let device = StreamKDevice {
            occupancy,
            sms,
            available_sms,
            accumulator_fragments,
        };
        let s = StreamK::new(
            GemmCoord::new(m, n, k),
            GemmCoord::new(1, 1, 1),
            splits,
            device,
        )
        .unwrap();
        let blocks = s.grid().unwrap().x;
        let mut digest = Digest::new();
        for x in 0..blocks {
            s.work(x)
                .iter()
                .for_each(|w| digest.add(&[x, w.tile.m, w.tile.n, w.k.start, w.k.end]));
        }
        (0..s.sk_tiles())
            .filter_map(|t| s.peers(t))
            .for_each(|peers| digest.add(&[*peers.start(), *peers.end()]));
        let counts = [
            blocks,
            s.sk_tiles(),
            s.sk_blocks(),
            s.sk_waves(),
            s.dp_blocks(),
            s.dp_first_wave_tiles(),
        ];
        let mut ours: Vec<i128> = counts.into_iter().map(i128::from).collect();
        ours.extend([
            i128::from(s.reduction_blocks()),
            i128::from(s.is_cohort_raster()),
            i128::from(digest.0),
        ]);
        assert_eq!(&ours, theirs, "{config:?}");
    }
    assert_eq!(rows.len(), 400);
    println!("law stream_k.as_cutlass_2: {} cases", rows.len());
}

#[test]
fn stream_k_as_hopper() {
    let rows = rows(include_str!("data/stream_k_sm90.tsv"));
    for (config, theirs) in &rows {
        let &[
            m,
            n,
            l,
            k,
            splits,
            cm,
            cn,
            sms,
            max_swizzle,
            raster,
            decomposition,
        ] = config.as_slice()
        else {
            panic!("eleven numbers")
        };
        let rasters = [
            RasterChoice::Heuristic,
            RasterChoice::AlongM,
            RasterChoice::AlongN,
        ];
        use Decomposition::{DataParallel, Heuristic, SplitK};
        let decompositions = [Heuristic, DataParallel, SplitK, Decomposition::StreamK];
        let args = StreamKSm90Args {
            cluster: [cm, cn],
            sms,
            max_active_clusters: None,
            splits,
            max_swizzle,
            raster: rasters[raster as usize],
            decomposition: decompositions[decomposition as usize],
        };
        let s = StreamKSm90::new(GemmCoord::new(m, n, l), k, args).unwrap();
        let mut digest = Digest::new();
        for unit in 0..s.units() {
            let word =
                |w: &colex_sched::Segment| [unit, w.tile.m, w.tile.n, w.tile.l, w.k.start, w.k.end];
            s.work(unit).iter().for_each(|w| digest.add(&word(w)));
        }
        let counts = [
            s.grid().x,
            s.grid().y,
            s.units(),
            s.sk_tiles(),
            s.sk_units(),
            s.splits(),
            s.groups(),
        ];
        let mut ours: Vec<i128> = counts.into_iter().map(i128::from).collect();
        ours.push(i128::from(digest.0));
        assert_eq!(&ours, theirs, "{config:?}");
    }
    assert_eq!(rows.len(), 400);
    println!("law stream_k_sm90.as_hopper: {} cases", rows.len());
}
