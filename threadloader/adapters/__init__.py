"""What connects threadloader to other programs: one file for each of them."""
