def show(step, boxes, scores, keep=12, file=None):
    for n in range(len(scores)):
        top = scores[n].argsort(descending=True)[:keep]
        for k in top:
            print(f"step {step} picture {n} cell {k} score", scores[n, k], "box", boxes[n, k], file=file)
