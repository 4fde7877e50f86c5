//! Tensors from arrays and back.

use std::error::Error;

use colex_layout::Layout;
use colex_tiled::Tensor;
use ndarray::{Array, Array3, ArrayD, Axis, Ix3, s};

type Outcome = Result<(), Box<dyn Error>>;

/// Every order of the axes, some of them backwards, of every small shape.
#[test]
fn a_view_and_its_tensor_have_the_same_elements() -> Outcome {
    let mut cases = 0;
    for (m, n, k) in [(1, 1, 1), (2, 3, 4), (5, 1, 2), (4, 4, 4), (1, 7, 3)] {
        let mut array: Array3<usize> =
            Array::from_shape_fn((m, n, k), |(i, j, l)| 100 * i + 10 * j + l);
        for axes in [
            [0, 1, 2],
            [0, 2, 1],
            [1, 0, 2],
            [1, 2, 0],
            [2, 0, 1],
            [2, 1, 0],
        ] {
            for backwards in 0..8 {
                let mut view = array.view().permuted_axes(axes);
                for axis in (0..3).filter(|axis| backwards >> axis & 1 == 1) {
                    view.invert_axis(Axis(axis));
                }
                let tensor = Tensor::from_view(view)?;
                for ((i, j, l), value) in view.indexed_iter() {
                    assert_eq!(tensor.get((i as i64, j as i64, l as i64))?, value);
                    cases += 1;
                }
                let back: Array<usize, Ix3> = tensor.to_array()?.into_dimensionality()?;
                assert_eq!(back, view);
                let owned = Tensor::from_array(view.to_owned())?;
                assert_eq!(owned.elements()?, tensor.elements()?);
                if backwards == 0 {
                    let again = tensor.array_view()?;
                    assert_eq!(again, view.into_dyn());
                    assert_eq!(again.as_ptr(), view.as_ptr(), "nothing is copied");
                }
            }
        }
        let mut tensor = Tensor::from_view_mut(array.view_mut().reversed_axes())?;
        tensor.transform(|x| x + 1)?;
        tensor.set((0, 0, 0), 7)?;
        assert_eq!(array[[0, 0, 0]], 7);
        let last = [m - 1, n - 1, k - 1];
        let written = if last == [0; 3] {
            7
        } else {
            100 * last[0] + 10 * last[1] + last[2] + 1
        };
        assert_eq!(array[last], written);
    }
    println!("law tensor.a_view_and_its_tensor_have_the_same_elements: {cases} elements");
    Ok(())
}

/// An array that keeps more data than it shows, and begins in the middle of it.
#[test]
fn an_owned_slice_keeps_its_place() -> Outcome {
    let array = Array::from_shape_fn((6, 5), |(i, j)| 10 * i + j);
    let part = array.slice_move(s![1..5;2, 3..;-1]);
    let tensor = Tensor::from_array(part.clone())?;
    assert_eq!(tensor.to_array()?, part.into_dyn());
    Ok(())
}

#[test]
fn a_line_is_one_mode_and_a_number_is_one_element() -> Outcome {
    let line = Tensor::from_array(Array::from_vec(vec![1, 2, 3]))?;
    assert_eq!(line.layout(), &"3:1".parse::<Layout>()?);
    let number = Tensor::from_array(ndarray::arr0(5))?;
    assert_eq!((number.layout().size(), number.elements()?), (1, vec![&5]));
    Ok(())
}

#[test]
fn errors_are_sentences() -> Outcome {
    let array = Array::from_shape_fn((6, 4), |(i, j)| 10 * i + j);
    assert_eq!(
        Tensor::from_view(array.slice(s![.., 1..3]))
            .unwrap_err()
            .to_string(),
        "from_view: the view (6,2):(4,1) is not one stretch of memory: take the whole array, and slice the tensor"
    );
    let empty: ArrayD<i32> = ArrayD::zeros(vec![2, 0]);
    assert!(Tensor::from_array(empty).is_err());
    let transposed = Tensor::new((0..8).collect::<Vec<i32>>(), "((2,2),2):((1,4),2)")?;
    assert_eq!(
        transposed.array_view().unwrap_err().to_string(),
        "array_view: the mode (2,2):(1,4) of ((2,2),2):((1,4),2) does not have one positive stride"
    );
    let shared = Tensor::new(vec![1, 2], "(2,3):(1,0)")?;
    assert_eq!(
        shared.array_view().unwrap_err().to_string(),
        "array_view: the mode 3:0 of (2,3):(1,0) does not have one positive stride"
    );
    assert_eq!(
        shared.to_array()?,
        ndarray::array![[1, 1, 1], [2, 2, 2]].into_dyn()
    );
    Ok(())
}
