"""Files with given bytes, numbered in their order."""


def write(folder, *datas):
    paths = [folder / f"{i:03}.bin" for i in range(len(datas))]
    for path, data in zip(paths, datas, strict=True):
        path.write_bytes(data)
    return paths
