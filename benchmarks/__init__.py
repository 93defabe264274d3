"""What is measured, against whom, with the recorded results.

.. include:: README.md
"""
