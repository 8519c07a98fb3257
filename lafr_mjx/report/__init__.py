"""The paper's claims against flown runs, and the page that shows them."""
