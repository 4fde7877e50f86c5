//! The numbers that the sweep draws.

use colex_atom::{Ty, Value};
use colex_proof::sweep::{Kind, Random};

#[test]
fn every_kind_draws_numbers_of_the_format() {
    let mut cases = 0;
    for ty in Ty::ALL {
        for kind in Kind::ALL {
            let mut random = Random::of(1, "numbers");
            for _ in 0..500 {
                let value = kind.draw(ty, &mut random);
                let again = Value::decode(ty, &value.encode(ty));
                let same = format!("{value}") == format!("{again}");
                assert!(same, "{ty} {kind:?}: {value} is stored as {again}");
                cases += 1;
            }
        }
    }
    println!("law sweep.draw: {cases} cases");
}

#[test]
fn kinds_hold_what_they_promise() {
    let mut random = Random::of(2, "kinds");
    let mut draw = |kind: Kind, ty| -> Vec<f64> {
        (0..2000)
            .map(|_| kind.draw(ty, &mut random).real())
            .collect()
    };
    let moderate = draw(Kind::Moderate, Ty::F16);
    assert!(moderate.iter().all(|x| (0.125..16.0).contains(&x.abs())));
    assert!(draw(Kind::Finite, Ty::F32).iter().all(|x| x.is_finite()));
    let tiny = draw(Kind::Tiny, Ty::F16);
    assert!(tiny.iter().all(|x| x.abs() < 2f64.powi(-13)));
    assert!(tiny.iter().any(|x| *x == 0.0 && x.is_sign_negative()));
    assert!(tiny.iter().any(|x| *x != 0.0 && x.abs() < 2f64.powi(-14)));
    let special = draw(Kind::Special, Ty::F16);
    assert!(special.iter().any(|x| x.is_nan()) && special.contains(&f64::NEG_INFINITY));
}

#[test]
fn a_permutation_holds_every_number_once() {
    let mut order = Random::of(3, "order").permutation(32);
    assert!(order.iter().enumerate().any(|(i, x)| i != *x));
    order.sort_unstable();
    assert_eq!(order, (0..32).collect::<Vec<_>>());
}
